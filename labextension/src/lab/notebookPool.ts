import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import { mentionsWool } from '../pool/cellSource';
import { PoolModel } from '../pool/poolModel';
import type { Ask } from '../pool/requests';
import { KernelLink } from './kernelLink';

/** The pool of one open notebook, whichever kernel it has at the time. Ends with the notebook's panel. */
export class NotebookPool implements IDisposable {
  readonly model = new PoolModel();

  constructor(readonly panel: NotebookPanel) {
    panel.sessionContext.kernelChanged.connect(this._follow, this);
    panel.disposed.connect(this.dispose, this);
    this._follow();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  readonly ask: Ask = request => this._link?.request(request);

  /** Has the kernel load the extension, unless it is known to have it. In line with the cells that are sent later. */
  load(): void {
    const kernel = this._link?.kernel;
    if (kernel && this.model.connection === 'unknown') {
      kernel.requestExecute({ code: '%load_ext wool_jupyter', silent: true, store_history: false });
    }
  }

  /** Idempotent. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.panel.sessionContext.kernelChanged.disconnect(this._follow, this);
    this.panel.disposed.disconnect(this.dispose, this);
    this._link?.dispose();
    this.model.dispose();
  }

  private _follow(): void {
    this._link?.dispose();
    this._link = null;
    const kernel = this.panel.sessionContext.session?.kernel;
    if (!kernel) {
      this.model.forget('none');
      return;
    }
    const link = new KernelLink(kernel, this.model);
    this._link = link;
    // A kernel that was loaded before this page was: nobody tells that it knows wool, but the notebook shows it.
    void this.panel.context.ready.then(() => {
      if (!link.isDisposed && this._mentionsWool()) {
        link.knock();
      }
    });
  }

  private _mentionsWool(): boolean {
    const cells = Array.from(this.panel.content.model?.cells ?? []);
    return cells.some(cell => cell.type === 'code' && mentionsWool(cell.sharedModel.getSource()));
  }

  private _link: KernelLink | null = null;
  private _isDisposed = false;
}
