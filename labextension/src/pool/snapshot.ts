import { flag, isObject, listOf, nullable, number, oneOf, record, text } from './reading';

/** What a pool looks like at one moment; `wool_jupyter/notebook/snapshot.py` says what each field means. */
export const SCHEMA = 1;

const pool = record({
  state: oneOf('none', 'starting', 'running', 'lost'),
  why: text,
  namespace: text,
  since: nullable(number),
  size: number,
  most: number,
  waiting: number
});

const running = record({ kind: oneOf('cell', 'call', 'job'), label: text, cell: text, since: number });

const worker = record({
  uid: text,
  pid: nullable(number),
  own: flag,
  tags: listOf(text),
  state: oneOf('starting', 'idle', 'busy', 'draining', 'dead'),
  why: text,
  since: number,
  running: nullable(running),
  done: number,
  keeps: number,
  bytes_in: number,
  bytes_out: number,
  cpu: nullable(number),
  rss: nullable(number),
  peak: nullable(number)
});

const cell = record({
  cell: text,
  label: text,
  worker: text,
  state: oneOf('waiting', 'running', 'ok', 'error', 'interrupted', 'died'),
  since: number,
  ended: nullable(number),
  bytes_in: number,
  bytes_out: number
});

const snapshot = record({ time: number, pool, workers: listOf(worker), cells: listOf(cell) });

export type Pool = ReturnType<typeof pool>;
export type PoolWorker = ReturnType<typeof worker>;
export type CellRun = ReturnType<typeof cell>;
export type Snapshot = ReturnType<typeof snapshot>;

/** The kernel's package and this page's are of different versions. */
export class OtherSchema extends Error {}

/** Throws `OtherSchema`, or a `TypeError` for what is no snapshot at all. */
export function readSnapshot(data: unknown): Snapshot {
  if (isObject(data) && typeof data.schema === 'number' && data.schema !== SCHEMA) {
    throw new OtherSchema(
      `The kernel's wool_jupyter is of another version than this page's. Reload the page.`
    );
  }
  return snapshot(data, 'snapshot');
}

/** May be asked to stop what it does: it has a body on its main thread. */
export function isWorking(worker: PoolWorker): boolean {
  return worker.running !== null && worker.state !== 'dead';
}
