import { expect, test } from 'vitest';
import { OtherSchema, readSnapshot } from '../src/pool/snapshot';
import { summaryOf } from '../src/pool/summary';
import { golden, NAMES, raw } from './golden';

test('there are golden files', () => {
  expect(NAMES).toContain('two-workers');
});

test.each(NAMES)('%s is read as it was written', name => {
  const { schema, ...fields } = raw(name);
  expect(schema).toBe(1);
  expect(golden(name)).toEqual(fields);
});

test('a field that a newer kernel adds is left out', () => {
  expect(readSnapshot({ ...raw('empty'), colour: 'blue' })).toEqual(golden('empty'));
});

test.each([
  ['another schema', { schema: 2 }, OtherSchema],
  ['nothing', null, /snapshot is not an object/],
  ['a list', [], /snapshot is not an object/],
  ['no pool', { ...raw('empty'), pool: undefined }, /snapshot\.pool is not an object/],
  [
    'a state nobody knows',
    { ...raw('empty'), pool: { state: 'odd' } },
    /pool\.state is not one of none, starting/
  ],
  ['a broken worker', { ...raw('empty'), workers: [{ uid: 7 }] }, /workers\[0\]\.uid is not a text/],
  ['cells that are none', { ...raw('empty'), cells: {} }, /cells is not a list/],
  ['a size in words', { ...raw('empty'), time: '12:00' }, /time is not a number/]
])('%s is refused, and the place is named', (_, data, error) => {
  expect(() => readSnapshot(data)).toThrow(error);
});

test.each([
  ['empty', ''],
  ['lost', 'lost'],
  ['starting', '2 starting'],
  ['two-workers', '1 busy, 1 idle'],
  ['dead', '1 idle, 1 starting']
] as const)('%s in a few words', (name, words) => {
  expect(summaryOf(golden(name))).toBe(words);
});
