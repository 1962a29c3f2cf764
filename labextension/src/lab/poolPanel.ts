import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { SEEN_EVERY_MS } from '../pool/requests';
import { Button } from '../view/button';
import { element, setShown, setText } from '../view/element';
import { PoolView } from '../view/poolView';
import { Visibility } from '../view/visibility';
import type { NotebookPool } from './notebookPool';
import type { INotebookPools } from './notebookPools';
import { woolIcon } from './woolIcon';

/** The side panel: the pool of the current notebook. */
export class PoolPanel extends Widget {
  constructor(private readonly _pools: INotebookPools) {
    super();
    this.id = 'wool-jupyter-panel';
    this.title.icon = woolIcon;
    this.title.caption = 'Wool: the workers of this notebook';
    this.addClass('jp-WoolPanel');
    this._load.node.classList.add('jp-mod-yes');
    this._message.append(this._words, this._load.node);
    this.node.append(this._name, this._message);
    _pools.currentChanged.connect(this._follow, this);
    this._follow();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._pools.currentChanged.disconnect(this._follow, this);
      this._leave();
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._visibility = new Visibility(this.node, () => this._pool?.ask({ do: 'seen' }), SEEN_EVERY_MS);
  }

  protected override onBeforeDetach(message: Message): void {
    this._visibility?.stop();
    super.onBeforeDetach(message);
  }

  private _follow(): void {
    const pool = this._pools.current;
    if (pool === this._pool && pool !== null) {
      return;
    }
    this._leave();
    this._pool = pool;
    if (pool) {
      this._view = new PoolView(pool.model.clock, pool.ask);
      this.node.append(this._view.node);
      pool.model.changed.connect(this._draw, this);
      pool.panel.title.changed.connect(this._draw, this);
      pool.ask({ do: 'seen' });
    }
    this._draw();
  }

  private _leave(): void {
    this._pool?.model.changed.disconnect(this._draw, this);
    this._pool?.panel.title.changed.disconnect(this._draw, this);
    this._view?.dispose();
    this._view = null;
    this._pool = null;
  }

  private _draw(): void {
    const model = this._pool?.model ?? null;
    const connection = model?.connection ?? 'none';
    const wasOpen = this._isOpen;
    this._isOpen = connection === 'open';
    if (this._isOpen && !wasOpen && this.isVisible) {
      this._pool?.ask({ do: 'seen' });
    }
    setText(this._name, this._pool?.panel.title.label ?? '');
    setText(this._words, this._explanation());
    setShown(this._message, this._words.textContent !== '');
    setShown(this._load.node, this._pool !== null && connection === 'unknown');
    if (this._view && model) {
      setShown(this._view.node, model.snapshot !== null);
      this._view.report(model.trouble);
      if (model.snapshot !== null) {
        this._view.show(model.snapshot, connection === 'open');
      }
    }
  }

  /** Why there is no pool to be seen, or "". */
  private _explanation(): string {
    if (this._pool === null) {
      return 'Open a notebook to see its workers.';
    }
    const { connection, snapshot, trouble } = this._pool.model;
    if (snapshot !== null) {
      return '';
    }
    if (trouble !== '') {
      return trouble;
    }
    if (connection === 'none') {
      return 'This notebook has no kernel.';
    }
    return connection === 'unknown' ? 'Wool is not loaded in this kernel.' : 'Waiting for the kernel.';
  }

  private readonly _name = element('div', 'jp-WoolPanel-name');
  private readonly _message = element('div', 'jp-Wool jp-WoolPanel-message');
  private readonly _words = element('p', 'jp-WoolPanel-words');
  private readonly _load = new Button({
    icon: 'start',
    label: 'Load wool_jupyter in this kernel',
    text: 'Load it',
    press: () => this._pool?.load()
  });
  private _isOpen = false;
  private _pool: NotebookPool | null = null;
  private _view: PoolView | null = null;
  private _visibility: Visibility | null = null;
}
