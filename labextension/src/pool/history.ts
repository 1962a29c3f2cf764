import type { Snapshot } from './snapshot';

export interface ISample {
  readonly time: number;
  readonly cpu: number;
  readonly rss: number;
}

/** A sparkline's width. */
export const WINDOW_S = 60;
const CLOSEST_S = 1; // nearer samples are one pixel: the later one counts

/** CPU and memory of the last minute, worker by worker. */
export class History {
  add(snapshot: Snapshot): void {
    const alive = new Map<string, ISample[]>();
    for (const { uid, cpu, rss } of snapshot.workers) {
      const samples = this._samples.get(uid) ?? [];
      if (cpu !== null && rss !== null) {
        append(samples, { time: snapshot.time, cpu, rss });
      }
      alive.set(uid, samples);
    }
    this._samples = alive;
  }

  of(uid: string): readonly ISample[] {
    return this._samples.get(uid) ?? [];
  }

  private _samples = new Map<string, ISample[]>();
}

function append(samples: ISample[], sample: ISample): void {
  const last = samples.at(-1)?.time ?? sample.time - CLOSEST_S;
  if (sample.time === last) {
    return;
  }
  if (sample.time < last) {
    samples.length = 0; // the kernel's clock was set back
  }
  const before = samples.at(-2);
  if (before !== undefined && sample.time - before.time < CLOSEST_S) {
    samples.pop();
  }
  samples.push(sample);
  while (samples.length > 0 && (samples[0]?.time ?? 0) < sample.time - WINDOW_S) {
    samples.shift();
  }
}
