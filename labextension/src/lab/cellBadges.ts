import { CodeCell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';
import type { CellRun } from '../pool/snapshot';
import { Badge } from '../view/badge';
import { Ticker } from '../view/ticker';
import type { NotebookPool } from './notebookPool';

/** A badge on each cell of one notebook that runs or ran on a worker. Ends with the notebook. */
export class CellBadges implements IDisposable {
  constructor(private readonly _pool: NotebookPool) {
    _pool.model.changed.connect(this._draw, this);
    _pool.panel.content.modelChanged.connect(this._draw, this);
    _pool.panel.disposed.connect(this.dispose, this);
    this._draw();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Idempotent. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._ticker?.stop();
    this._pool.model.changed.disconnect(this._draw, this);
    this._pool.panel.content.modelChanged.disconnect(this._draw, this);
    this._pool.panel.disposed.disconnect(this.dispose, this);
    for (const cell of this._pool.panel.content.widgets) {
      cell.inViewportChanged.disconnect(this._draw, this);
    }
    for (const badge of this._badges.values()) {
      badge.node.remove();
    }
    this._badges.clear();
  }

  private _draw(): void {
    const runs = new Map(this._pool.model.snapshot?.cells.map(run => [run.cell, run]));
    const before = this._badges;
    this._badges = new Map();
    for (const cell of this._pool.panel.content.widgets) {
      const run = runs.get(cell.model.id);
      if (run !== undefined && cell instanceof CodeCell) {
        this._badges.set(run.cell, this._show(cell, run, before.get(run.cell)));
      }
    }
    for (const [id, badge] of before) {
      if (this._badges.get(id) !== badge) {
        badge.node.remove();
      }
    }
    this._tick();
    this._keepTicking();
  }

  private _show(cell: CodeCell, run: CellRun, known: Badge | undefined): Badge {
    const badge = known ?? new Badge(run);
    badge.show(run);
    // Between code and output. A cell that was never on screen has neither yet: then it comes last, until the cell is seen.
    const input = cell.node.querySelector(':scope > .jp-Cell-inputWrapper');
    if (badge.node.parentElement !== cell.node || (input !== null && input.nextSibling !== badge.node)) {
      cell.node.insertBefore(badge.node, input?.nextSibling ?? null);
    }
    cell.inViewportChanged.connect(this._draw, this);
    return badge;
  }

  private _tick(): void {
    const now = this._pool.model.clock.at(Date.now() / 1000);
    for (const badge of this._badges.values()) {
      badge.tick(now);
    }
  }

  private _keepTicking(): void {
    const goesOn = Array.from(this._badges.values()).some(badge => badge.goesOn);
    if (goesOn) {
      this._ticker ??= new Ticker(() => this._tick());
    } else {
      this._ticker?.stop();
      this._ticker = null;
    }
  }

  private _badges = new Map<string, Badge>();
  private _isDisposed = false;
  private _ticker: Ticker | null = null;
}
