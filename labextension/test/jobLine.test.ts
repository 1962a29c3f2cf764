import { expect, test } from 'vitest';
import { jobMark, withHint } from '../src/pool/jobLine';

const DATA = { 'text/plain': 'wool: job 3 is done', 'text/html': '<div style="x">job 3 is done</div>' };

test('a line carries its job, whether that has ended, and what shows its output again', () => {
  const wool = { job: 'id', ended: false, again: '%wool output 3' };
  expect(jobMark({ wool })).toEqual(wool);
  expect(jobMark({ wool: { job: 'id', ended: true } })).toEqual({ job: 'id', ended: true, again: '' });
});

test('a line of an older kernel gets no hint', () => {
  const mark = jobMark({ wool: { job: 'id' } });
  expect(mark).toEqual({ job: 'id', ended: true, again: '' });
  expect(mark && withHint(DATA, mark)).toBe(DATA);
});

test.each([undefined, null, {}, { wool: 1 }, { wool: { job: 1 } }])('%o is of no job', metadata => {
  expect(jobMark(metadata)).toBeNull();
});

test('a hint stands in both forms of the line, below what was there', () => {
  const hint = 'the page was loaded anew: `%wool output 3` shows what may be missing here';
  expect(withHint(DATA, { job: 'id', ended: true, again: '%wool output 3' })).toEqual({
    'text/plain': `wool: job 3 is done\nwool: ${hint}`,
    'text/html': `<div style="x">job 3 is done<br>${hint}</div>`
  });
  expect(withHint({ 'text/latex': 'x' }, { job: 'id', ended: true, again: 'again' })).toEqual({
    'text/latex': 'x'
  });
});
