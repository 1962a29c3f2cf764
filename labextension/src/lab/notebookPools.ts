import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import { NotebookPool } from './notebookPool';

export const INotebookPools = new Token<INotebookPools>(
  'wool-jupyter-labextension:INotebookPools',
  'The pools of the notebooks that are open.'
);

export interface INotebookPools {
  /** Of the notebook that the user looks at, or looked at last. */
  readonly current: NotebookPool | null;
  readonly currentChanged: ISignal<INotebookPools, NotebookPool | null>;
  /** Once for each notebook, when it is opened. */
  readonly opened: ISignal<INotebookPools, NotebookPool>;
}

/** Lives as long as the page. */
export class NotebookPools implements INotebookPools {
  constructor(private readonly _tracker: INotebookTracker) {
    _tracker.widgetAdded.connect((_, panel) => this._open(panel));
    _tracker.currentChanged.connect(() => this._currentChanged.emit(this.current));
    _tracker.forEach(panel => this._open(panel));
  }

  get current(): NotebookPool | null {
    const panel = this._tracker.currentWidget;
    return panel && this._open(panel);
  }

  get currentChanged(): ISignal<this, NotebookPool | null> {
    return this._currentChanged;
  }

  get opened(): ISignal<this, NotebookPool> {
    return this._opened;
  }

  /** The tracker tells of the current notebook before, or after, it tells that it was added. */
  private _open(panel: NotebookPanel): NotebookPool {
    const known = this._pools.get(panel);
    if (known) {
      return known;
    }
    const pool = new NotebookPool(panel);
    this._pools.set(panel, pool);
    this._opened.emit(pool);
    return pool;
  }

  private readonly _currentChanged = new Signal<this, NotebookPool | null>(this);
  private readonly _opened = new Signal<this, NotebookPool>(this);
  private readonly _pools = new WeakMap<NotebookPanel, NotebookPool>();
}
