import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { PoolModel } from '../pool/poolModel';
import { Request, troubleIn } from '../pool/requests';

const FEED = 'wool-jupyter-feed'; // the id of a comm that nobody opens: what goes to all pages
const TARGET = 'wool-jupyter';

/**
 * Between one kernel and the model of its pool.
 *
 * Snapshots are broadcasts: they need no handshake, so that a page that is loaded while the kernel is busy hears them at
 * once. Requests go by a comm on a subshell of its own, where the kernel answers while its main thread is busy.
 */
export class KernelLink implements IDisposable {
  constructor(
    readonly kernel: Kernel.IKernelConnection,
    private readonly _model: PoolModel
  ) {
    kernel.iopubMessage.connect(this._onMessage, this);
    kernel.statusChanged.connect(this._onStatus, this);
    _model.forget('unknown');
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Nothing happens unless the kernel has answered (the model's connection is `open`). */
  request(request: Request): void {
    if (this._model.connection === 'open') {
      this._comm?.send(request);
    }
  }

  /** Asks whether the kernel knows wool. One that does not writes a line to the server's log: don't do it unasked. */
  async knock(): Promise<void> {
    if (this._comm !== null || this._isDisposed || !this.kernel.handleComms) {
      return;
    }
    const comm = this.kernel.createComm(TARGET);
    this._comm = comm;
    comm.onMsg = message => this._onAnswer(message.content.data);
    comm.onClose = () => this._closed(comm);
    try {
      await onSubshell(this.kernel, comm);
      if (this._comm === comm && !comm.isDisposed) {
        comm.open({ do: 'hello' });
      }
    } catch {
      this._closed(comm); // the kernel has gone meanwhile
    }
  }

  /** Idempotent. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.kernel.iopubMessage.disconnect(this._onMessage, this);
    this.kernel.statusChanged.disconnect(this._onStatus, this);
    const comm = this._comm;
    this._comm = null;
    if (comm !== null && !comm.isDisposed && !this.kernel.isDisposed && this._model.connection === 'open') {
      comm.close();
    }
  }

  private _onMessage(_: unknown, message: KernelMessage.IIOPubMessage): void {
    if (!isBroadcast(message)) {
      return;
    }
    this._model.receive(message.content.data.snapshot, Date.now() / 1000);
    if (this._model.connection === 'unknown') {
      this._model.connect('heard');
    }
    void this.knock();
  }

  private _onAnswer(data: unknown): void {
    this._model.connect('open');
    const trouble = troubleIn(data);
    if (trouble !== null) {
      this._model.report(trouble);
    }
  }

  private _closed(comm: Kernel.IComm): void {
    if (this._comm === comm) {
      this._comm = null;
      this._model.forget('unknown');
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._comm = null; // the kernel connection disposes of it
      this._model.forget(status === 'dead' ? 'none' : 'unknown');
    }
  }

  private _comm: Kernel.IComm | null = null;
  private _isDisposed = false;
}

/**
 * A comm that is opened before its subshell is there waits for the running cell, and stays on the main thread for good.
 *
 * JupyterLab 4.2 and 4.3 know no subshells. `subshellStarted` is on the class alone, and without subshells it never ends.
 */
async function onSubshell(kernel: Kernel.IKernelConnection, comm: Kernel.IComm): Promise<void> {
  await kernel.info;
  if (
    'subshellStarted' in comm &&
    kernel.supportsSubshells &&
    String(kernel.commsOverSubshells) !== 'disabled'
  ) {
    await comm.subshellStarted;
  }
}

function isBroadcast(message: KernelMessage.IIOPubMessage): message is KernelMessage.ICommMsgMsg<'iopub'> {
  return (
    message.header.msg_type === 'comm_msg' && 'comm_id' in message.content && message.content.comm_id === FEED
  );
}
