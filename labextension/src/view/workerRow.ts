import { bytes, count, elapsed, sentence, shortUid, unbroken } from '../pool/format';
import type { Ask } from '../pool/requests';
import { isWorking, PoolWorker } from '../pool/snapshot';
import { Button } from './button';
import { element, setAttribute, setShown, setText } from './element';
import { Question } from './question';
import { WorkerMeters } from './workerMeters';

/** One worker: who it is, what it does, what it uses, and what can be done about it. */
export class WorkerRow {
  readonly node: HTMLElement;
  readonly meters = new WorkerMeters();

  constructor(
    private _worker: PoolWorker,
    private readonly _ask: Ask
  ) {
    const name = shortUid(_worker.uid);
    this._uid.textContent = name;
    this.node = element(
      'li',
      'jp-Wool-worker',
      { 'data-uid': _worker.uid },
      element(
        'div',
        'jp-Wool-who',
        {},
        element('span', 'jp-Wool-dot', { 'aria-hidden': 'true' }),
        this._uid,
        this._state,
        this._tags
      ),
      this._task,
      this._buttons,
      this._why,
      this.meters.node,
      this._facts,
      this._question.node
    );
    this._task.append(this._label, this._elapsed);
    this._buttons.append(this._interrupt.node, this._restart.node);
    this._interrupt.name(`Interrupt what worker ${name} runs`);
    this._restart.name(`Restart worker ${name}`);
  }

  /** `live`: the kernel can be asked for something. */
  show(worker: PoolWorker, namespace: string, live: boolean): void {
    this._worker = worker;
    const working = isWorking(worker);
    const dead = worker.state === 'dead';
    setAttribute(this.node, 'data-state', worker.state);
    setAttribute(this.node, 'aria-label', `Worker ${shortUid(worker.uid)}, ${worker.state}`);
    setText(this._state, worker.state);
    setText(this._label, worker.running?.label ?? '');
    setShown(this._task, worker.running !== null);
    setText(this._why, sentence(worker.why));
    setShown(this._why, worker.why !== '');
    setShown(this.meters.node, worker.cpu !== null || worker.rss !== null);
    setShown(this._buttons, !dead);
    setText(this._facts, factsOf(worker).map(unbroken).join(' · '));
    this._showTags([...(worker.own ? [] : ['borrowed']), ...worker.tags.filter(tag => tag !== namespace)]);
    this._interrupt.enable(live && working);
    this._restart.enable(live && !dead && worker.own);
    if (dead) {
      this._question.drop();
    }
  }

  /** `now`: by the kernel's clock. */
  tick(now: number): void {
    const { running } = this._worker;
    setText(this._elapsed, running === null ? '' : elapsed(now - running.since));
  }

  private _showTags(tags: readonly string[]): void {
    if (this._tags.childElementCount !== tags.length || this._tags.textContent !== tags.join('')) {
      this._tags.replaceChildren(...tags.map(tag => element('span', 'jp-Wool-tag', {}, tag)));
    }
  }

  private _askToRestart(): void {
    const { uid, running, keeps } = this._worker;
    const then = () => this._ask({ do: 'restart', worker: uid });
    const lost = [
      ...(isWorking(this._worker) && running !== null ? [`ends ${running.label}`] : []),
      ...(keeps > 0 ? [`loses ${count(keeps, 'value')} kept here`] : [])
    ];
    if (lost.length === 0) {
      then();
    } else {
      this._question.ask({
        text: `A restart ${lost.join(' and ')}.`,
        icon: 'restart',
        verb: 'Restart',
        then
      });
    }
  }

  private readonly _uid = element('code', 'jp-Wool-uid');
  private readonly _state = element('span', 'jp-Wool-state');
  private readonly _tags = element('span', 'jp-Wool-tags');
  private readonly _task = element('div', 'jp-Wool-task');
  private readonly _label = element('span', 'jp-Wool-label');
  private readonly _elapsed = element('span', 'jp-Wool-elapsed');
  private readonly _buttons = element('div', 'jp-Wool-buttons');
  private readonly _why = element('div', 'jp-Wool-why');
  private readonly _facts = element('div', 'jp-Wool-facts');
  private readonly _question = new Question();
  private readonly _interrupt = new Button({
    icon: 'interrupt',
    label: 'Interrupt',
    press: () => this._ask({ do: 'interrupt', worker: this._worker.uid })
  });
  private readonly _restart = new Button({
    icon: 'restart',
    label: 'Restart',
    press: () => this._askToRestart()
  });
}

function factsOf(worker: PoolWorker): string[] {
  return [
    ...(worker.pid === null ? [] : [`pid ${worker.pid}`]),
    `${worker.done} done`,
    ...(worker.keeps > 0 ? [`keeps ${count(worker.keeps, 'value')}`] : []),
    ...(worker.bytes_in > 0 ? [`${bytes(worker.bytes_in)} in`] : []),
    ...(worker.bytes_out > 0 ? [`${bytes(worker.bytes_out)} out`] : [])
  ];
}
