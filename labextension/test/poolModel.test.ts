import { afterEach, expect, test, vi } from 'vitest';
import { History } from '../src/pool/history';
import { KernelClock } from '../src/pool/kernelClock';
import { PoolModel } from '../src/pool/poolModel';
import { troubleIn } from '../src/pool/requests';
import { golden, raw } from './golden';

afterEach(() => vi.restoreAllMocks());

function watched(): { model: PoolModel; changes: () => number } {
  const model = new PoolModel();
  let changes = 0;
  model.changed.connect(() => (changes += 1));
  return { model, changes: () => changes };
}

test('a snapshot is taken and told of', () => {
  const { model, changes } = watched();
  model.receive(raw('two-workers'), 0);
  expect(model.snapshot).toEqual(golden('two-workers'));
  expect(changes()).toBe(1);
  expect(model.run('b2d93e77')?.state).toBe('running');
  expect(model.run('nowhere')).toBeUndefined();
});

test('what is no snapshot changes nothing, and is reported once', () => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const { model, changes } = watched();
  model.receive(raw('two-workers'), 0);
  model.receive({ workers: 7 }, 0);
  model.receive({ workers: 7 }, 0);
  expect(model.snapshot).toEqual(golden('two-workers'));
  expect(changes()).toBe(1);
  expect(warn).toHaveBeenCalledOnce();
});

test('a kernel of another version is a trouble in words', () => {
  const { model } = watched();
  model.receive({ schema: 99 }, 0);
  expect(model.trouble).toContain('another version');
});

test('a new kernel has no pool and no trouble yet', () => {
  const { model, changes } = watched();
  model.receive(raw('two-workers'), 0);
  model.report('it went wrong');
  model.connect('open');
  model.connect('open');
  expect(changes()).toBe(3);
  model.forget('unknown');
  expect([model.snapshot, model.trouble, model.connection]).toEqual([null, '', 'unknown']);
});

test('a disposed model tells nobody', () => {
  const { model, changes } = watched();
  model.dispose();
  model.dispose();
  model.receive(raw('empty'), 0);
  expect([model.isDisposed, changes()]).toEqual([true, 0]);
});

test('the message that was fastest sets the clock', () => {
  const clock = new KernelClock();
  expect(clock.at(50)).toBe(50);
  clock.heard(100, 205); // five seconds on its way
  clock.heard(110, 210);
  clock.heard(120, 222);
  expect(clock.at(300)).toBe(200);
});

test('history keeps a minute of those that are there, a sample a second', () => {
  const history = new History();
  const two = golden('two-workers');
  const uid = two.workers[0]?.uid ?? '';
  for (let tick = 0; tick < 1000; tick++) {
    history.add({ ...two, time: two.time + tick / 10 });
  }
  const samples = history.of(uid);
  expect(samples.length).toBeGreaterThan(55);
  expect(samples.length).toBeLessThan(70);
  expect((samples.at(-1)?.time ?? 0) - (samples[0]?.time ?? 0)).toBeLessThanOrEqual(60);
  expect(samples.at(-1)?.time).toBe(two.time + 99.9);
  history.add({ ...two, workers: [] });
  expect(history.of(uid)).toEqual([]);
});

test('a clock that is set back begins a new history', () => {
  const history = new History();
  const two = golden('two-workers');
  for (const time of [two.time, two.time + 1, two.time - 3600, two.time - 3599]) {
    history.add({ ...two, time });
  }
  const times = history.of(two.workers[0]?.uid ?? '').map(sample => sample.time);
  expect(times).toEqual([two.time - 3600, two.time - 3599]);
});

test('nothing is drawn of a worker without figures', () => {
  const history = new History();
  history.add(golden('unseen'));
  expect(history.of(golden('unseen').workers[0]?.uid ?? '')).toEqual([]);
});

test.each([
  [{ did: 'scale', error: 'at least one' }, 'at least one'],
  [{ did: 'scale', error: '' }, ''],
  [{ did: 'seen', error: '' }, null],
  [{ did: 'hello', error: 'too old' }, 'too old'],
  [{ other: 1 }, null],
  ['text', null]
])('of the answer %j the words are %j', (message, words) => {
  expect(troubleIn(message)).toBe(words);
});
