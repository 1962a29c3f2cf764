import { Widget } from '@lumino/widgets';
import { summaryOf } from '../pool/summary';
import { element, setShown, setText } from '../view/element';
import type { NotebookPool } from './notebookPool';
import type { INotebookPools } from './notebookPools';

/** In the status bar: the current notebook's pool in a few words. A press opens the panel. */
export class StatusItem extends Widget {
  constructor(
    private readonly _pools: INotebookPools,
    open: () => void
  ) {
    super();
    this.addClass('jp-WoolStatus');
    this._button.addEventListener('click', open);
    this.node.append(this._button);
    _pools.currentChanged.connect(this._follow, this);
    this._follow();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._pools.currentChanged.disconnect(this._follow, this);
      this._pool?.model.changed.disconnect(this._draw, this);
      super.dispose();
    }
  }

  private _follow(): void {
    this._pool?.model.changed.disconnect(this._draw, this);
    this._pool = this._pools.current;
    this._pool?.model.changed.connect(this._draw, this);
    this._draw();
  }

  private _draw(): void {
    const snapshot = this._pool?.model.snapshot;
    const summary = snapshot ? summaryOf(snapshot) : '';
    setText(this._button, `Wool: ${summary}`);
    setShown(this._button, summary !== '');
  }

  private readonly _button = element('button', 'jp-WoolStatus-button', {
    type: 'button',
    title: 'Show the pool'
  });
  private _pool: NotebookPool | null = null;
}
