import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KernelClock } from '../src/pool/kernelClock';
import type { Request } from '../src/pool/requests';
import type { PoolWorker, Snapshot } from '../src/pool/snapshot';
import { PoolView } from '../src/view/poolView';
import { golden, NAMES } from './golden';

const NOW = 1_764_450_551.25; // of the golden files

let view: PoolView;
let asked: Request[];

beforeEach(() => {
  vi.useFakeTimers({ now: NOW * 1000 });
  asked = [];
  view = new PoolView(new KernelClock(), request => asked.push(request));
  document.body.append(view.node);
});

afterEach(() => {
  view.dispose();
  vi.useRealTimers();
});

function one(selector: string, within: Element = view.node): HTMLElement {
  const found = within.querySelector(selector);
  expect(found, selector).toBeInstanceOf(HTMLElement);
  return found as HTMLElement;
}

function row(uid: string): HTMLElement {
  return one(`[data-uid^="${uid}"]`);
}

function words(node: Element): string {
  return Array.from(node.querySelectorAll('*'))
    .filter(each => each.childElementCount === 0 && each.closest('[hidden]') === null)
    .map(each => each.textContent.replaceAll('\u00a0', ' '))
    .filter(text => text !== '')
    .join(' | ');
}

function press(label: string): void {
  one(`button[aria-label^="${label}"]`).click();
}

function changed(snapshot: Snapshot, uid: string, change: Partial<PoolWorker>): Snapshot {
  const workers = snapshot.workers.map(worker =>
    worker.uid.startsWith(uid) ? { ...worker, ...change } : worker
  );
  return { ...snapshot, workers };
}

test.each(NAMES)('%s has a row for each worker, with its state', name => {
  const snapshot = golden(name);
  view.show(snapshot, true);
  const rows = Array.from(view.node.querySelectorAll<HTMLElement>('li'));
  expect(rows.map(each => [each.dataset.uid, each.dataset.state])).toEqual(
    snapshot.workers.map(worker => [worker.uid, worker.state])
  );
});

test('a busy worker, in words', () => {
  view.show(golden('two-workers'), true);
  expect(words(row('d3270c31'))).toBe(
    'd3270c31 | busy | In[5] | 51 s | CPU | 97 % | Memory | 184 MB | pid 4711 · 12 done · 55.6 MB in · 2.05 kB out'
  );
  expect(row('d3270c31').getAttribute('aria-label')).toBe('Worker d3270c31, busy');
  expect(words(one('.jp-Wool-header'))).toBe('Running | 2 workers | k-3f2a9c0d1e4b5a67 · up 9 min');
});

test('a dead worker says why and has no buttons', () => {
  view.show(golden('dead'), true);
  expect(words(row('d3270c31'))).toContain('SIGKILL');
  expect(one('.jp-Wool-buttons', row('d3270c31')).hidden).toBe(true);
});

test('a pool that did not start says why, and can be started', () => {
  view.show(golden('failed'), true);
  expect(words(one('.jp-Wool-header'))).toContain('A worker exited with code 1 before it was ready');
  press('Start a pool');
  expect(asked).toEqual([{ do: 'start' }]);
});

test('tags are text, and the namespace is none', () => {
  view.show(golden('borrowed'), true);
  const tags = (uid: string) => Array.from(row(uid).querySelectorAll('.jp-Wool-tag'), tag => tag.textContent);
  expect(tags('063fda22')).toEqual(['borrowed', 'gpu', 'host <b>& co</b>', 'Größe']);
  expect(tags('d3270c31')).toEqual([]);
});

test('bars have one scale, and the peak is marked', () => {
  view.show(golden('two-workers'), true);
  const [cpu, memory] = Array.from(row('78960660').querySelectorAll('[role="meter"]'));
  expect(cpu?.getAttribute('aria-valuetext')).toBe('0 %');
  expect(memory?.getAttribute('aria-valuenow')).toBe('52'); // of the other's peak
  expect(memory?.getAttribute('title')).toBe('Memory; the mark is its peak, 106 MB');
  expect(one('.jp-Wool-barMark', row('78960660')).style.left).toBe('');
});

test('a worker that is gone does not make the others look small', () => {
  view.show(golden('dead'), true); // its peak was 7.9 GB
  const memory = row('78960660').querySelector('[aria-label="Memory"]');
  expect(memory?.getAttribute('aria-valuenow')).toBe('96'); // of its own peak
});

test('what runs ticks by itself, and stops with the view', () => {
  view.show(golden('two-workers'), true);
  const elapsed = one('.jp-Wool-elapsed', row('d3270c31'));
  vi.advanceTimersByTime(9000);
  expect(elapsed.textContent).toBe('1 min 0 s');
  view.dispose();
  view.dispose();
  vi.advanceTimersByTime(9000);
  expect(elapsed.textContent).toBe('1 min 0 s');
  expect(vi.getTimerCount()).toBe(0);
});

test('a row that stays is the same node and keeps the focus, whoever comes and goes', () => {
  view.show(golden('two-workers'), true);
  const kept = row('78960660');
  const button = one('button[aria-label^="Restart"]', kept);
  button.focus();
  const [first, second] = golden('two-workers').workers as [PoolWorker, PoolWorker];
  view.show({ ...golden('two-workers'), workers: [{ ...first, uid: 'new' }, second] }, true);
  view.show({ ...golden('two-workers'), workers: [second, { ...first, uid: 'newer' }] }, true);
  expect(row('78960660')).toBe(kept);
  expect(document.activeElement).toBe(button);
  expect(Array.from(view.node.querySelectorAll('li'), each => each.dataset.uid?.slice(0, 8))).toEqual([
    '78960660',
    'newer'
  ]);
});

test('the focus of a row that goes comes to the list', () => {
  view.show(golden('two-workers'), true);
  one('button[aria-label^="Restart"]', row('d3270c31')).focus();
  view.show({ ...golden('two-workers'), workers: [] }, true);
  view.show(golden('two-workers'), true);
  expect(document.activeElement).not.toBe(document.body);
});

test('a snapshot that brings nothing new touches nothing', async () => {
  view.show(golden('sixty-four'), true);
  let touched = 0;
  const observer = new MutationObserver(records => (touched += records.length));
  observer.observe(view.node, { attributes: true, characterData: true, childList: true, subtree: true });
  view.show(golden('sixty-four'), true);
  await Promise.resolve();
  expect(touched).toBe(0);
});

test('buttons ask for what they say', () => {
  view.show(golden('two-workers'), true);
  press('Interrupt what worker d3270c31');
  press('Restart worker 78960660');
  press('Add a worker');
  press('Remove a worker');
  const [busy, idle] = golden('two-workers').workers;
  expect(asked).toEqual([
    { do: 'interrupt', worker: busy?.uid },
    { do: 'restart', worker: idle?.uid },
    { do: 'scale', workers: 3 },
    { do: 'scale', workers: 1 }
  ]);
});

test('what would be lost is asked about first', () => {
  view.show(changed(golden('two-workers'), 'd3270c31', { keeps: 2 }), true);
  const restart = one('button[aria-label^="Restart worker d3270c31"]');
  restart.focus();
  restart.click();
  expect(asked).toEqual([]);
  expect(words(one('.jp-Wool-question:not([hidden])'))).toContain(
    'A restart ends In[5] and loses 2 values kept here.'
  );
  document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  expect(document.activeElement).toBe(restart);
  restart.click();
  press('Restart');
  one('.jp-Wool-question .jp-mod-yes', row('d3270c31')).click();
  expect(asked.at(-1)).toEqual({ do: 'restart', worker: golden('two-workers').workers[0]?.uid });
});

test('a stop asks only where something runs or is kept', () => {
  view.show(golden('two-workers'), true);
  press('Stop the pool');
  expect(asked).toEqual([]);
  one('.jp-Wool-header .jp-mod-yes').click();
  view.show({ ...golden('two-workers'), workers: golden('two-workers').workers.slice(1) }, true);
  press('Stop the pool');
  expect(asked).toEqual([{ do: 'stop' }, { do: 'stop' }]);
});

test('a question goes away with its worker', () => {
  view.show(golden('two-workers'), true);
  press('Restart worker d3270c31');
  view.show(changed(golden('two-workers'), 'd3270c31', { state: 'dead', running: null }), true);
  expect(view.node.querySelector('.jp-Wool-question:not([hidden])')).toBeNull();
});

test('without a kernel that answers, buttons do nothing and say so', () => {
  view.show(golden('two-workers'), false);
  for (const button of view.node.querySelectorAll<HTMLElement>('button:not([hidden])')) {
    if (button.closest('[hidden]') === null) {
      expect(button.getAttribute('aria-disabled'), button.title).toBe('true');
      button.click();
    }
  }
  expect(asked).toEqual([]);
});

test('a screen reader hears who came and who died, and no figures', () => {
  view.show(golden('two-workers'), true);
  const status = one('[role="status"]');
  expect(status.textContent).toBe('');
  view.show(changed(golden('two-workers'), 'd3270c31', { state: 'dead', why: 'exited with code 3' }), true);
  expect(status.textContent).toBe('Worker d3270c31 exited with code 3.');
  view.show({ ...golden('dead') }, true);
  expect(status.textContent).toBe('Worker 6df898f8 joined.');
});

test('trouble is shown until it is dismissed', () => {
  view.show(golden('two-workers'), true);
  view.report('a pool needs at least one worker');
  const alert = one('[role="alert"]');
  expect([alert.hidden, alert.textContent]).toEqual([false, 'a pool needs at least one worker']);
  press('Dismiss');
  expect(alert.hidden).toBe(true);
});
