import { expect, test } from 'vitest';
import { age, bytes, count, elapsed, percent, sentence, shortUid, took } from '../src/pool/format';

test.each([
  [-3, '0 s'],
  [0.99, '0 s'],
  [59.9, '59 s'],
  [60, '1 min 0 s'],
  [3599, '59 min 59 s'],
  [3600, '1 h 0 min'],
  [90061, '1 d 1 h']
])('%d s that go on are shown as %s', (seconds, words) => {
  expect(elapsed(seconds)).toBe(words);
});

test.each([
  [-0.1, '0.0 s'],
  [19.54, '19.5 s'],
  [61, '1 min 1 s']
])('%d s that have ended are shown as %s', (seconds, words) => {
  expect(took(seconds)).toBe(words);
});

test.each([
  [59, '<1 min'],
  [60, '1 min'],
  [7320, '2 h 2 min']
])('an age of %d s is shown as %s', (seconds, words) => {
  expect(age(seconds)).toBe(words);
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [2048, '2.05 kB'],
  [20480, '20.5 kB'],
  [183500800, '184 MB'],
  [4.2e9, '4.20 GB'],
  [5e15, '5000 TB']
])('%d bytes are shown as %s', (size, words) => {
  expect(bytes(size)).toBe(words);
});

test('the small ones', () => {
  expect(percent(1.604)).toBe('160 %');
  expect(shortUid('d3270c31bad85898950c043d57064f00')).toBe('d3270c31');
  expect([count(1, 'worker'), count(0, 'worker')]).toEqual(['1 worker', '0 workers']);
  expect(sentence('was killed')).toBe('Was killed');
});
