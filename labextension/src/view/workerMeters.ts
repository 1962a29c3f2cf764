import { bytes, percent } from '../pool/format';
import { ISample, WINDOW_S } from '../pool/history';
import type { PoolWorker } from '../pool/snapshot';
import { element } from './element';
import { Meter } from './meter';

/** The full length of the bars of all workers, so that they can be compared. */
export interface IScale {
  readonly time: number;
  /** Cores: one, or the most that a worker uses. */
  readonly cores: number;
  /** Bytes: the highest peak of all that live. */
  readonly memory: number;
}

export function scaleOf(time: number, workers: readonly PoolWorker[]): IScale {
  const alive = workers.filter(worker => worker.state !== 'dead');
  return {
    time,
    cores: Math.max(1, ...alive.map(worker => worker.cpu ?? 0)),
    memory: Math.max(1, ...alive.map(worker => worker.peak ?? worker.rss ?? 0))
  };
}

/** CPU and memory of one worker. */
export class WorkerMeters {
  readonly node: HTMLElement;

  constructor() {
    this.node = element('div', 'jp-Wool-meters', {}, this._cpu.node, this._memory.node);
  }

  show({ cpu, rss, peak }: PoolWorker, samples: readonly ISample[], scale: IScale): void {
    const line = (of: (sample: ISample) => number) =>
      samples.map(sample => [1 - (scale.time - sample.time) / WINDOW_S, of(sample)] as const);
    this._cpu.show({
      share: cpu === null ? null : cpu / scale.cores,
      mark: null,
      text: cpu === null ? '–' : percent(cpu),
      line: line(sample => sample.cpu / scale.cores)
    });
    this._memory.show({
      share: rss === null ? null : rss / scale.memory,
      mark: peak === null ? null : peak / scale.memory,
      text: rss === null ? '–' : bytes(rss),
      line: line(sample => sample.rss / scale.memory)
    });
    this._memory.describe(peak === null ? 'Memory' : `Memory; the mark is its peak, ${bytes(peak)}`);
  }

  private readonly _cpu = new Meter('CPU', 'CPU; 100 % is one core');
  private readonly _memory = new Meter('Memory', 'Memory');
}
