import { bytes, elapsed, shortUid, took } from '../pool/format';
import type { CellRun } from '../pool/snapshot';
import { element, setAttribute, setText } from './element';

/** Below a cell: where it runs or ran, how it stands, for how long, and what travelled. */
export class Badge {
  readonly node = element(
    'div',
    'jp-WoolBadge',
    {},
    element('span', 'jp-Wool-dot', { 'aria-hidden': 'true' })
  );

  constructor(private _run: CellRun) {
    this.node.append(this._words);
  }

  /** Whether its text changes by itself, with time. */
  get goesOn(): boolean {
    return this._run.ended === null;
  }

  show(run: CellRun): void {
    this._run = run;
    setAttribute(this.node, 'data-state', run.state);
  }

  /** `now`: by the kernel's clock. */
  tick(now: number): void {
    setText(this._words, wordsOf(this._run, now).join(' · '));
  }

  private readonly _words = element('span', 'jp-WoolBadge-words');
}

function wordsOf(run: CellRun, now: number): string[] {
  const { state, worker, since, ended, bytes_in, bytes_out } = run;
  return [
    worker === '' ? 'wool' : `worker ${shortUid(worker)}`,
    state === 'waiting' ? 'waits for a worker' : state,
    ended === null ? elapsed(now - since) : took(ended - since),
    ...(bytes_in > 0 ? [`${bytes(bytes_in)} in`] : []),
    ...(bytes_out > 0 ? [`${bytes(bytes_out)} out`] : [])
  ];
}
