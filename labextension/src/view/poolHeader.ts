import { age, count, sentence } from '../pool/format';
import type { Ask } from '../pool/requests';
import { isWorking, Pool, Snapshot } from '../pool/snapshot';
import { Button } from './button';
import { element, setAttribute, setShown, setText } from './element';
import { Question } from './question';

const STATES: Record<Pool['state'], string> = {
  none: 'No pool',
  starting: 'Starting',
  running: 'Running',
  lost: 'Lost'
};

/** The pool as a whole, and its size. */
export class PoolHeader {
  readonly node: HTMLElement;

  constructor(private readonly _ask: Ask) {
    this.node = element(
      'div',
      'jp-Wool-header',
      {},
      element(
        'div',
        'jp-Wool-who',
        {},
        element('span', 'jp-Wool-dot', { 'aria-hidden': 'true' }),
        this._state,
        this._size
      ),
      element(
        'div',
        'jp-Wool-buttons',
        { role: 'group', 'aria-label': 'Pool' },
        ...[this._remove, this._add, this._start, this._stop].map(button => button.node)
      ),
      this._facts,
      this._why,
      this._question.node
    );
  }

  show(snapshot: Snapshot, live: boolean): void {
    this._snapshot = snapshot;
    const { state, why, size, waiting, namespace } = snapshot.pool;
    const there = state === 'starting' || state === 'running';
    setAttribute(this.node, 'data-state', state);
    setText(this._state, STATES[state]);
    setText(
      this._size,
      there ? [count(size, 'worker'), ...(waiting > 0 ? [`${waiting} waiting`] : [])].join(', ') : ''
    );
    setText(this._why, why === '' && state === 'none' ? 'The first %%wool cell starts one.' : sentence(why));
    setShown(this._why, this._why.textContent !== '');
    setShown(this._facts, namespace !== '');
    for (const button of [this._remove, this._add, this._stop]) {
      setShown(button.node, there);
      button.enable(live);
    }
    this._remove.enable(live && size > 1);
    setShown(this._start.node, !there);
    this._start.enable(live);
  }

  tick(now: number): void {
    const { namespace, since } = this._snapshot?.pool ?? { namespace: '', since: null };
    setText(this._facts, since === null ? namespace : `${namespace} · up ${age(now - since)}`);
  }

  private _scale(by: number): void {
    this._ask({ do: 'scale', workers: (this._snapshot?.pool.size ?? 0) + by });
  }

  private _askToStop(): void {
    const workers = this._snapshot?.workers.filter(worker => worker.own) ?? [];
    const then = () => this._ask({ do: 'stop' });
    const bodies = workers.filter(isWorking).length;
    const kept = workers.reduce((sum, worker) => sum + worker.keeps, 0);
    const lost = [
      ...(bodies > 0 ? [`interrupts ${count(bodies, 'worker')}`] : []),
      ...(kept > 0 ? [`loses ${count(kept, 'value')} kept there`] : [])
    ];
    if (lost.length === 0) {
      then();
    } else {
      this._question.ask({
        text: `Stopping the pool ${lost.join(' and ')}.`,
        icon: 'stop',
        verb: 'Stop',
        then
      });
    }
  }

  private readonly _state = element('span', 'jp-Wool-poolState');
  private readonly _size = element('span', 'jp-Wool-size');
  private readonly _facts = element('div', 'jp-Wool-facts');
  private readonly _why = element('div', 'jp-Wool-why');
  private readonly _question = new Question();
  private readonly _remove = new Button({
    icon: 'remove',
    label: 'Remove a worker',
    press: () => this._scale(-1)
  });
  private readonly _add = new Button({ icon: 'add', label: 'Add a worker', press: () => this._scale(1) });
  private readonly _stop = new Button({
    icon: 'stop',
    label: 'Stop the pool',
    press: () => this._askToStop()
  });
  private readonly _start = new Button({
    icon: 'start',
    label: 'Start a pool',
    text: 'Start',
    press: () => this._ask({ do: 'start' })
  });
  private _snapshot: Snapshot | null = null;
}
