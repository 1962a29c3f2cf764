import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import widget from '../src/widget';
import { raw } from './golden';

/** As anywidget's: it keeps handlers by event. */
class FakeModel {
  readonly sent: unknown[] = [];
  snapshot: unknown = {};

  get(): unknown {
    return this.snapshot;
  }

  on(event: string, handler: (message?: unknown) => void): void {
    this._handlers.set(event, [...(this._handlers.get(event) ?? []), handler]);
  }

  off(event: string, handler: unknown): void {
    this._handlers.set(event, this._handlers.get(event)?.filter(each => each !== handler) ?? []);
  }

  send(request: unknown): void {
    this.sent.push(request);
  }

  emit(event: string, message?: unknown): void {
    this._handlers.get(event)?.forEach(handler => handler(message));
  }

  handlers(): number {
    return Array.from(this._handlers.values()).flat().length;
  }

  set(snapshot: unknown): void {
    this.snapshot = snapshot;
    this.emit('change:snapshot');
  }

  private readonly _handlers = new Map<string, ((message?: unknown) => void)[]>();
}

let appears: (isIntersecting: boolean) => void;
let model: FakeModel;
let el: HTMLElement;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(callback: (entries: { isIntersecting: boolean }[]) => void) {
        appears = isIntersecting => callback([{ isIntersecting }]);
      }
      observe(): void {
        appears(true);
      }
      disconnect(): void {
        appears = () => undefined;
      }
    }
  );
  model = new FakeModel();
  el = document.createElement('div');
  document.body.append(el);
});

afterEach(() => {
  el.remove();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('it shows the snapshot that it has, and each that comes', () => {
  model.snapshot = raw('two-workers');
  widget.render({ model, el });
  expect(el.querySelectorAll('li').length).toBe(2);
  model.set(raw('dead'));
  expect(el.querySelectorAll('li').length).toBe(3);
});

test('it says why there is nothing to be seen', () => {
  model.snapshot = { schema: 99 };
  widget.render({ model, el });
  expect(el.querySelector('.jp-Wool-empty')?.textContent).toContain('another version');
  model.set(raw('empty'));
  expect(el.querySelector('.jp-Wool-empty')).toBeNull();
});

test('buttons send to the kernel, and what it refuses is shown', () => {
  model.snapshot = raw('two-workers');
  widget.render({ model, el });
  el.querySelector<HTMLElement>('[aria-label="Add a worker"]')?.click();
  expect(model.sent.at(-1)).toEqual({ do: 'scale', workers: 3 });
  model.emit('msg:custom', { did: 'scale', error: 'no room' });
  expect(el.querySelector('[role="alert"]:not([hidden])')?.textContent).toBe('no room');
  model.emit('msg:custom', { did: 'seen', error: '' });
  expect(el.querySelector('[role="alert"]:not([hidden])')?.textContent).toBe('no room');
});

test('it says that it is seen while it is, every ten seconds', () => {
  widget.render({ model, el });
  expect(model.sent).toEqual([{ do: 'seen' }]);
  vi.advanceTimersByTime(25_000);
  expect(model.sent.length).toBe(3);
  appears(false);
  vi.advanceTimersByTime(60_000);
  expect(model.sent.length).toBe(3);
  appears(true);
  expect(model.sent.length).toBe(4);
});

test('what is shown in two places is undone in each on its own', () => {
  model.snapshot = raw('two-workers');
  const other = document.createElement('div');
  const undo = widget.render({ model, el });
  widget.render({ model, el: other });
  undo();
  model.set(raw('dead'));
  expect([el.querySelectorAll('li').length, other.querySelectorAll('li').length]).toEqual([0, 3]);
  expect(model.handlers()).toBe(2);
  expect(vi.getTimerCount()).toBe(2); // the other's tick, and that it is seen
});
