import { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { PoolModel } from '../pool/poolModel';
import { isObject } from '../pool/reading';
import { Request, troubleIn } from '../pool/requests';

const FEED = 'wool-jupyter-feed'; // the id of a comm that nobody opens: what goes to all pages
const REQUEST = 'comm_info_request'; // for the comms of `TARGET`: of a kind whose "busy" and "idle" are not shown as the kernel's
const TARGET = 'wool-jupyter';

/**
 * Between one kernel and the model of its pool.
 *
 * Snapshots are broadcasts, and requests go by the control channel. Neither needs a handshake, so that a page that is loaded
 * while the kernel is busy hears and is heard at once.
 */
export class KernelLink implements IDisposable {
  constructor(
    readonly kernel: Kernel.IKernelConnection,
    private readonly _model: PoolModel
  ) {
    kernel.iopubMessage.connect(this._onMessage, this);
    kernel.statusChanged.connect(this._onStatus, this);
    kernel.connectionStatusChanged.connect(this._onConnection, this);
    _model.forget('unknown');
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Nothing happens unless the kernel has answered (the model's connection is `open`). */
  request(request: Request): void {
    if (this._model.connection === 'open') {
      this._send(request);
    }
  }

  /** Asks whether the kernel knows wool. One of another language may not know such questions: don't do it unasked. */
  knock(): void {
    if (!this._hasKnocked && !this._isDisposed && this._model.connection !== 'open') {
      this._hasKnocked = true;
      this._send({ do: 'hello' }, () => (this._hasKnocked = false));
    }
  }

  /** Idempotent. */
  dispose(): void {
    this._isDisposed = true;
    this.kernel.iopubMessage.disconnect(this._onMessage, this);
    this.kernel.statusChanged.disconnect(this._onStatus, this);
    this.kernel.connectionStatusChanged.disconnect(this._onConnection, this);
  }

  /** `done`: the kernel has taken it in, or never will. Then its first answer is there, if it knows what was asked. */
  private _send(request: Request, done: () => void = () => undefined): void {
    if (this.kernel.status === 'dead') {
      return;
    }
    const { clientId: session, username } = this.kernel;
    const content = { target_name: TARGET, request };
    const parts = { msgType: REQUEST, channel: 'control', session, username, content };
    const message = KernelMessage.createMessage(parts as unknown as Asked);
    this.kernel.sendControlMessage(message).done.then(done, done); // it fails when the kernel goes away meanwhile
  }

  private _onMessage(_: unknown, message: KernelMessage.IIOPubMessage): void {
    if (this._wasCutOff && this.kernel.connectionStatus === 'connected') {
      this._wasCutOff = false;
      this.knock();
    }
    if (!isOfFeed(message)) {
      return;
    }
    const { word, snapshot, answer } = message.content.data;
    if (isObject(answer)) {
      if ('session' in message.parent_header && message.parent_header.session === this.kernel.clientId) {
        this._onAnswer(answer);
      }
    } else if (word === 'unloaded') {
      this._model.forget('unknown');
    } else {
      this._onNews(snapshot);
    }
  }

  private _onNews(snapshot: unknown): void {
    if (snapshot !== undefined) {
      this._model.receive(snapshot, Date.now() / 1000);
    }
    if (this._model.connection === 'unknown') {
      this._model.connect('heard');
    }
    this.knock();
  }

  private _onAnswer(answer: unknown): void {
    this._model.connect('open');
    const trouble = troubleIn(answer);
    if (trouble !== null) {
      this._model.report(trouble);
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._hasKnocked = this._wasCutOff = false;
      this._model.forget(status === 'dead' ? 'none' : 'unknown');
    }
  }

  /**
   * A socket that breaks takes with it what the kernel says meanwhile, also the answer to a hello: the server keeps messages for the
   * page that was the last one connected, and JupyterLab waits for ever for the answer to what it has sent. So a kernel that is known
   * to have wool, or was being asked, is greeted again, and tells all news. Not before something is heard by the new socket: one to a
   * busy kernel may be open and miss an answer that comes at once.
   */
  private _onConnection(_: unknown, status: Kernel.ConnectionStatus): void {
    if (status !== 'connected' && (this._hasKnocked || this._isHeard)) {
      this._hasKnocked = false;
      this._wasCutOff = true;
      if (this._isHeard) {
        this._model.connect('heard'); // nobody answers for now
      }
    }
  }

  private get _isHeard(): boolean {
    return this._model.connection === 'heard' || this._model.connection === 'open';
  }

  private _hasKnocked = false;
  private _wasCutOff = false;
  private _isDisposed = false;
}

/** Of the messages that JupyterLab knows by name, one like ours. */
type Asked = KernelMessage.IOptions<KernelMessage.IDebugRequestMsg>;

function isOfFeed(message: KernelMessage.IIOPubMessage): message is KernelMessage.ICommMsgMsg<'iopub'> {
  return (
    message.header.msg_type === 'comm_msg' && 'comm_id' in message.content && message.content.comm_id === FEED
  );
}
