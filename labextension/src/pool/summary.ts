import type { PoolWorker, Snapshot } from './snapshot';

const SHOWN: readonly PoolWorker['state'][] = ['busy', 'idle', 'starting', 'draining'];

/** A pool in a few words, such as `1 busy, 2 idle`; "": there is none. */
export function summaryOf({ pool, workers }: Snapshot): string {
  if (pool.state === 'none') {
    return '';
  }
  if (pool.state === 'lost') {
    return 'lost';
  }
  const counts = SHOWN.map(
    state => [workers.filter(worker => worker.state === state).length, state] as const
  );
  const words = counts.filter(([number]) => number > 0).map(([number, state]) => `${number} ${state}`);
  return words.join(', ') || 'starting';
}
