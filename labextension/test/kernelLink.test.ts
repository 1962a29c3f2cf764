import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { beforeEach, expect, test } from 'vitest';
import { KernelLink } from '../src/lab/kernelLink';
import { PoolModel } from '../src/pool/poolModel';
import { raw } from './golden';

/** What a page sees of a kernel, and what the kernel hears of it. */
class FakeKernel {
  readonly asked: unknown[] = [];
  readonly clientId = 'this page';
  readonly username = 'somebody';
  readonly iopubMessage = new Signal<this, unknown>(this);
  readonly statusChanged = new Signal<this, Kernel.Status>(this);
  readonly connectionStatusChanged = new Signal<this, Kernel.ConnectionStatus>(this);
  status: Kernel.Status = 'busy';
  connectionStatus: Kernel.ConnectionStatus = 'connecting';
  private _ends: ((ends: boolean) => void)[] = [];

  sendControlMessage(message: KernelMessage.IControlMessage): { done: Promise<void> } {
    expect(message.channel).toBe('control');
    expect(message.header).toMatchObject({ msg_type: 'comm_info_request', session: 'this page' });
    const { target_name: target, request } = message.content as { target_name?: string; request?: unknown };
    expect(target).toBe('wool-jupyter');
    this.asked.push(request);
    return {
      done: new Promise((resolve, reject) =>
        this._ends.push(well => (well ? resolve() : reject(new Error('Canceled'))))
      )
    };
  }

  /** Has taken in what it was asked, or will never do so. */
  async ends(well = true): Promise<void> {
    this._ends.forEach(end => end(well));
    this._ends = [];
    await new Promise(resolve => setTimeout(resolve));
  }

  sends(data: unknown, session = 'of the kernel', id = 'wool-jupyter-feed', type = 'comm_msg'): void {
    this.iopubMessage.emit({
      header: { msg_type: type },
      parent_header: { session },
      content: { comm_id: id, data }
    });
  }

  turnsOnIopub(state: Kernel.Status): void {
    const status: Partial<KernelMessage.IStatusMsg> = { content: { execution_state: state } };
    this.iopubMessage.emit({ ...status, header: { msg_type: 'status' } });
  }

  answers(answer: unknown, page = 'this page'): void {
    this.sends({ answer }, page);
  }

  connects(status: Kernel.ConnectionStatus): void {
    this.connectionStatus = status;
    this.connectionStatusChanged.emit(status);
  }

  turns(status: Kernel.Status): void {
    this.status = status;
    this.statusChanged.emit(status);
  }
}

const HELLO = { do: 'hello' };

let model: PoolModel;
let kernel: FakeKernel;

beforeEach(() => {
  model = new PoolModel();
  kernel = new FakeKernel();
});

function linked(): KernelLink {
  return new KernelLink(kernel as unknown as Kernel.IKernelConnection, model);
}

async function opened(): Promise<KernelLink> {
  const link = linked();
  kernel.sends({ snapshot: raw('empty') });
  kernel.answers({ did: 'hello', error: '' });
  await kernel.ends();
  return link;
}

test('a kernel that says nothing is not asked', () => {
  linked();
  kernel.sends({ snapshot: raw('empty') }, '', 'of another comm');
  kernel.sends({ snapshot: raw('empty') }, '', 'wool-jupyter-feed', 'comm_close');
  expect([kernel.asked, model.connection, model.snapshot]).toEqual([[], 'unknown', null]);
});

test('a kernel that has loaded wool is greeted', () => {
  linked();
  kernel.sends({ word: 'loaded' });
  expect([kernel.asked, model.connection, model.snapshot]).toEqual([[HELLO], 'heard', null]);
});

test('a snapshot is shown at once, and answered by one hello', () => {
  linked();
  kernel.sends({ snapshot: raw('two-workers') });
  kernel.sends({ snapshot: raw('two-workers') });
  expect([model.snapshot?.workers.length, model.connection]).toEqual([2, 'heard']);
  expect(kernel.asked).toEqual([HELLO]);
  kernel.answers({ did: 'hello', error: '' }, 'another page');
  expect(model.connection).toBe('heard'); // until it answers this one
  kernel.answers({ did: 'hello', error: '' });
  expect(model.connection).toBe('open');
});

test('requests are sent once the kernel has answered, and what it refuses is told', () => {
  const link = linked();
  link.request({ do: 'stop' });
  link.knock();
  link.request({ do: 'stop' });
  expect(kernel.asked).toEqual([HELLO]);
  kernel.answers({ did: 'hello', error: '' });
  link.request({ do: 'scale', workers: 0 });
  expect(kernel.asked.at(-1)).toEqual({ do: 'scale', workers: 0 });
  kernel.answers({ did: 'scale', error: 'at least one' });
  expect(model.trouble).toBe('at least one');
  kernel.answers({ did: 'stop', error: 'for somebody else' }, 'another page');
  kernel.answers({ did: 'seen', error: '' });
  expect(model.trouble).toBe('at least one');
  kernel.answers({ did: 'start', error: '' });
  expect(model.trouble).toBe('');
});

test.each([true, false])('a kernel that gave no answer is asked again when it is heard (%s)', async ends => {
  linked().knock();
  await kernel.ends(ends);
  expect(model.connection).toBe('unknown');
  kernel.sends({ word: 'loaded' });
  expect(kernel.asked).toEqual([HELLO, HELLO]);
});

test('a kernel that has unloaded wool is forgotten, and greeted when it loads it again', async () => {
  await opened();
  kernel.sends({ word: 'unloaded' });
  expect([model.snapshot, model.connection, kernel.asked]).toEqual([null, 'unknown', [HELLO]]);
  kernel.sends({ word: 'loaded' });
  expect(kernel.asked).toEqual([HELLO, HELLO]);
});

test.each(['restarting', 'autorestarting', 'dead'] as const)(
  'a kernel that is %s is forgotten, and the next one asked anew',
  async status => {
    const link = await opened();
    kernel.turns(status);
    expect([model.snapshot, model.connection]).toEqual([null, status === 'dead' ? 'none' : 'unknown']);
    link.request({ do: 'stop' });
    link.knock();
    expect(kernel.asked).toEqual(status === 'dead' ? [HELLO] : [HELLO, HELLO]);
  }
);

test.each([true, false])(
  'a kernel is greeted again by a new socket (answered by the old one: %s)',
  answered => {
    const link = linked();
    kernel.connects('connected');
    kernel.sends({ snapshot: raw('two-workers') });
    if (answered) {
      kernel.answers({ did: 'hello', error: '' });
    }
    kernel.connects('connecting');
    link.request({ do: 'stop' }); // nobody would hear it
    expect([model.connection, model.snapshot?.workers.length, kernel.asked]).toEqual(['heard', 2, [HELLO]]);
    kernel.connects('connected');
    expect(kernel.asked).toEqual([HELLO]); // an answer might be missed yet
    kernel.turnsOnIopub('busy');
    kernel.turnsOnIopub('idle');
    kernel.sends({ snapshot: raw('two-workers') });
    expect(kernel.asked).toEqual([HELLO, HELLO]);
    kernel.answers({ did: 'hello', error: '' });
    expect(model.connection).toBe('open');
  }
);

test('a kernel that was being asked when the socket broke is asked again', () => {
  linked().knock();
  kernel.connects('connected');
  kernel.connects('connecting');
  kernel.turnsOnIopub('idle'); // by the old socket
  expect(kernel.asked).toEqual([HELLO]);
  kernel.connects('connected');
  kernel.turnsOnIopub('idle');
  expect(kernel.asked).toEqual([HELLO, HELLO]);
});

test('a kernel that is not known to have wool is not asked by a new socket', async () => {
  linked().knock();
  await kernel.ends(); // without an answer
  kernel.connects('connecting');
  kernel.connects('connected');
  kernel.turnsOnIopub('idle');
  expect(kernel.asked).toEqual([HELLO]);
});

test('a kernel that was restarted is not asked by the socket to the new one', async () => {
  await opened();
  kernel.connects('connecting');
  kernel.turns('autorestarting');
  kernel.connects('connected');
  kernel.turnsOnIopub('idle');
  expect([kernel.asked, model.connection]).toEqual([[HELLO], 'unknown']);
});

test('the first socket is no new one', () => {
  linked().knock();
  kernel.connects('connected');
  kernel.turnsOnIopub('idle');
  expect(kernel.asked).toEqual([HELLO]);
});

test('a link that was disposed, twice, hears and says nothing', async () => {
  const link = await opened();
  link.dispose();
  link.dispose();
  model.forget('open'); // of another link by now
  kernel.sends({ snapshot: raw('two-workers') });
  kernel.turns('restarting');
  kernel.connects('connecting');
  kernel.connects('connected');
  link.knock();
  expect([link.isDisposed, model.snapshot, model.connection, kernel.asked]).toEqual([
    true,
    null,
    'open',
    [HELLO]
  ]);
});

test('messages of other kinds are passed over', () => {
  linked();
  kernel.turnsOnIopub('busy');
  expect(model.snapshot).toBeNull();
});
