import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { beforeEach, expect, test } from 'vitest';
import { KernelLink } from '../src/lab/kernelLink';
import { PoolModel } from '../src/pool/poolModel';
import { raw } from './golden';

/** The page's end of a comm, and what a kernel would see and do at the other. */
class FakeComm {
  readonly seen: unknown[] = [];
  isDisposed = false;
  onMsg: (message: { content: { data: unknown } }) => void = () => undefined;
  onClose: () => void = () => undefined;

  constructor(readonly subshellStarted: Promise<void>) {}

  open(data: unknown): void {
    this.seen.push({ open: data });
  }

  send(data: unknown): void {
    this.seen.push(data);
  }

  close(): void {
    this.isDisposed = true;
    this.seen.push('closed');
  }

  answer(data: unknown): void {
    this.onMsg({ content: { data } });
  }
}

class FakeKernel {
  readonly comms: FakeComm[] = [];
  readonly info = Promise.resolve({});
  readonly iopubMessage = new Signal<this, unknown>(this);
  readonly statusChanged = new Signal<this, Kernel.Status>(this);
  handleComms = true;
  isDisposed = false;
  commsOverSubshells = 'perCommTarget';
  subshellStarts: () => void = () => undefined;

  constructor(readonly supportsSubshells = true) {}

  createComm(target: string): FakeComm {
    expect(target).toBe('wool-jupyter');
    const comm = new FakeComm(new Promise(resolve => (this.subshellStarts = resolve)));
    this.comms.push(comm);
    return comm;
  }

  broadcasts(data: unknown, id = 'wool-jupyter-feed', type = 'comm_msg'): void {
    this.iopubMessage.emit({ header: { msg_type: type }, content: { comm_id: id, data } });
  }
}

let model: PoolModel;

beforeEach(() => {
  model = new PoolModel();
});

function linked(kernel: FakeKernel): KernelLink {
  return new KernelLink(kernel as unknown as Kernel.IKernelConnection, model);
}

/** Lets promises that are fulfilled go on. */
async function settle(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve));
}

async function opened(kernel: FakeKernel): Promise<[KernelLink, FakeComm]> {
  const link = linked(kernel);
  kernel.broadcasts({ snapshot: raw('empty') });
  await settle();
  kernel.subshellStarts();
  await settle();
  const comm = kernel.comms[0];
  if (comm === undefined) {
    throw new Error('no comm was made');
  }
  comm.answer({ did: 'hello', error: '' });
  return [link, comm];
}

test('a kernel that says nothing is not asked', async () => {
  const kernel = new FakeKernel();
  linked(kernel);
  kernel.broadcasts({ snapshot: raw('empty') }, 'of another comm');
  kernel.broadcasts({ snapshot: raw('empty') }, 'wool-jupyter-feed', 'comm_close');
  await settle();
  expect([kernel.comms.length, model.connection, model.snapshot]).toEqual([0, 'unknown', null]);
});

test('a broadcast is shown at once, and answered by a comm that waits for its subshell', async () => {
  const kernel = new FakeKernel();
  linked(kernel);
  kernel.broadcasts({ snapshot: raw('two-workers') });
  kernel.broadcasts({ snapshot: raw('two-workers') });
  expect([model.snapshot?.workers.length, model.connection]).toEqual([2, 'heard']);
  await settle();
  expect(kernel.comms.map(comm => comm.seen)).toEqual([[]]);
  kernel.subshellStarts();
  await settle();
  expect(kernel.comms[0]?.seen).toEqual([{ open: { do: 'hello' } }]);
  expect(model.connection).toBe('heard'); // until it answers
  kernel.comms[0]?.answer({ did: 'hello', error: '' });
  expect(model.connection).toBe('open');
});

test.each([
  ['knows none', new FakeKernel(false)],
  ['was told not to use them', Object.assign(new FakeKernel(), { commsOverSubshells: 'disabled' })]
])('no subshell is waited for where the kernel %s', async (_, kernel) => {
  linked(kernel);
  kernel.broadcasts({ snapshot: raw('empty') });
  await settle();
  expect(kernel.comms[0]?.seen).toEqual([{ open: { do: 'hello' } }]);
});

test('requests are sent once the kernel has answered, and what it refuses is told', async () => {
  const kernel = new FakeKernel();
  const link = linked(kernel);
  link.request({ do: 'stop' });
  const knocked = link.knock();
  link.request({ do: 'stop' });
  await settle();
  kernel.subshellStarts();
  await knocked;
  link.request({ do: 'stop' });
  const comm = kernel.comms[0] ?? expect.fail('no comm was made');
  expect(comm.seen).toEqual([{ open: { do: 'hello' } }]);
  comm.answer({ did: 'hello', error: '' });
  link.request({ do: 'scale', workers: 0 });
  expect(comm.seen.at(-1)).toEqual({ do: 'scale', workers: 0 });
  comm.answer({ did: 'scale', error: 'at least one' });
  expect(model.trouble).toBe('at least one');
  comm.answer({ did: 'seen', error: '' });
  expect(model.trouble).toBe('at least one');
  comm.answer({ did: 'start', error: '' });
  expect(model.trouble).toBe('');
});

test('a kernel that does not know wool closes the comm: nothing is known then', async () => {
  const kernel = new FakeKernel(false);
  const link = linked(kernel);
  await link.knock();
  kernel.comms[0]?.onClose();
  expect(model.connection).toBe('unknown');
  kernel.broadcasts({ snapshot: raw('empty') });
  await settle();
  expect(kernel.comms.length).toBe(2);
});

test.each(['restarting', 'autorestarting', 'dead'] as const)(
  'a kernel that is %s is forgotten',
  async status => {
    const kernel = new FakeKernel();
    const [link, comm] = await opened(kernel);
    kernel.statusChanged.emit(status);
    expect([model.snapshot, model.connection]).toEqual([null, status === 'dead' ? 'none' : 'unknown']);
    link.request({ do: 'stop' });
    kernel.broadcasts({ snapshot: raw('empty') }); // of the next one
    comm.onClose(); // late
    expect(model.snapshot).not.toBeNull();
    expect(comm.seen).toEqual([{ open: { do: 'hello' } }]);
  }
);

test('a kernel that goes away while its subshell starts leaves nothing behind', async () => {
  const kernel = new FakeKernel();
  Object.assign(kernel, { info: Promise.reject(new Error('Canceled')) });
  const link = linked(kernel);
  await link.knock();
  expect(model.connection).toBe('unknown');
  Object.assign(kernel, { info: Promise.resolve({}) });
  await Promise.race([link.knock(), settle()]);
  expect(kernel.comms.length).toBe(2);
});

test('a link that was disposed, twice, hears and says nothing', async () => {
  const kernel = new FakeKernel();
  const [link, comm] = await opened(kernel);
  link.dispose();
  link.dispose();
  expect(comm.seen.at(-1)).toBe('closed');
  model.forget('none');
  kernel.broadcasts({ snapshot: raw('two-workers') });
  kernel.statusChanged.emit('restarting');
  await link.knock();
  expect([link.isDisposed, model.snapshot, model.connection, kernel.comms.length]).toEqual([
    true,
    null,
    'none',
    1
  ]);
});

test('messages of other kinds are passed over', () => {
  const kernel = new FakeKernel();
  linked(kernel);
  const status: Partial<KernelMessage.IStatusMsg> = { content: { execution_state: 'busy' } };
  kernel.iopubMessage.emit({ ...status, header: { msg_type: 'status' } });
  expect(model.snapshot).toBeNull();
});
