import { shortUid } from '../pool/format';
import { History } from '../pool/history';
import type { KernelClock } from '../pool/kernelClock';
import type { Ask } from '../pool/requests';
import type { PoolWorker, Snapshot } from '../pool/snapshot';
import { Button } from './button';
import { element, setShown, setText } from './element';
import { KeyedList } from './keyed';
import { PoolHeader } from './poolHeader';
import { Ticker } from './ticker';
import { scaleOf } from './workerMeters';
import { WorkerRow } from './workerRow';

/**
 * A pool, drawn into `node`: a snapshot in, requests out. The panel and the widget both show one.
 *
 * It knows neither the kernel nor JupyterLab. It ticks by itself from the first snapshot to `dispose`.
 */
export class PoolView {
  readonly node: HTMLElement;

  constructor(
    private readonly _clock: KernelClock,
    ask: Ask
  ) {
    this._header = new PoolHeader(ask);
    this._rows = new KeyedList(
      this._list,
      worker => worker.uid,
      worker => new WorkerRow(worker, ask)
    );
    this._dismiss = new Button({ icon: 'dismiss', label: 'Dismiss', press: () => this.report('') });
    this._trouble.append(this._troubleText, this._dismiss.node);
    this._trouble.hidden = true;
    this.node = element(
      'section',
      'jp-Wool',
      { 'aria-label': 'Wool pool' },
      this._trouble,
      this._header.node,
      this._list,
      this._news
    );
  }

  /** `live`: the kernel can be asked for something; without it the buttons do nothing. */
  show(snapshot: Snapshot, live: boolean): void {
    const focused = this._list.contains(document.activeElement);
    this._announce(snapshot);
    if (snapshot !== this._snapshot) {
      this._history.add(snapshot);
    }
    this._snapshot = snapshot;
    this._header.show(snapshot, live);
    const scale = scaleOf(snapshot.time, snapshot.workers);
    this._rows.show(snapshot.workers, (row, worker) => {
      row.show(worker, snapshot.pool.namespace, live);
      row.meters.show(worker, this._history.of(worker.uid), scale);
    });
    setShown(this._list, snapshot.workers.length > 0);
    this._ticker ??= new Ticker(() => this._tick());
    this._tick();
    if (focused && !this._list.contains(document.activeElement)) {
      this._list.focus(); // its row has gone
    }
  }

  /** What went wrong, in words; "" takes it away. */
  report(trouble: string): void {
    setText(this._troubleText, trouble);
    setShown(this._trouble, trouble !== '');
  }

  /** Idempotent. */
  dispose(): void {
    this._ticker?.stop();
    this.node.remove();
  }

  private _tick(): void {
    const now = this._clock.at(Date.now() / 1000);
    this._header.tick(now);
    for (const row of this._rows.parts) {
      row.tick(now);
    }
  }

  /** For screen readers: who came and went, no figures. */
  private _announce(snapshot: Snapshot): void {
    const before = new Map(this._snapshot?.workers.map(worker => [worker.uid, worker]));
    const news = snapshot.workers.flatMap(worker => newsOf(before.get(worker.uid), worker));
    if (this._snapshot !== null && news.length > 0) {
      setText(this._news, news.join(' '));
    }
  }

  private readonly _history = new History();
  private readonly _list = element('ul', 'jp-Wool-workers', {
    role: 'list',
    'aria-label': 'Workers',
    tabindex: '-1'
  });
  private readonly _news = element('div', 'jp-Wool-news', { role: 'status' });
  private readonly _trouble = element('div', 'jp-Wool-trouble', { role: 'alert' });
  private readonly _troubleText = element('span', 'jp-Wool-troubleText');
  private readonly _dismiss: Button;
  private readonly _header: PoolHeader;
  private readonly _rows: KeyedList<PoolWorker, WorkerRow>;
  private _snapshot: Snapshot | null = null;
  private _ticker: Ticker | null = null;
}

function newsOf(before: PoolWorker | undefined, worker: PoolWorker): string[] {
  const name = `Worker ${shortUid(worker.uid)}`;
  if (before === undefined) {
    return [`${name} joined.`];
  }
  if (worker.state === 'dead' && before.state !== 'dead') {
    return [`${name} ${worker.why || 'died'}.`];
  }
  return [];
}
