import { expect, test } from 'vitest';
import { fromWool, IEdit, mentionsWool, runsOnWool, toWool } from '../src/pool/cellSource';

function after(source: string, edit: IEdit | null): string {
  return edit ? source.slice(0, edit.start) + edit.text + source.slice(edit.end) : source;
}

test.each([
  ['x = 1', '%%wool\nx = 1'],
  ['', '%%wool\n'],
  ['%%time\nx = 1', '%%time\n%%wool\nx = 1'],
  ['%%time\n%%capture out\nx = 1', '%%time\n%%capture out\n%%wool\nx = 1'],
  ['%%time', '%%time\n%%wool'],
  ['%%bash\nls', '%%wool\n%%bash\nls'],
  ['# %%wool', '%%wool\n# %%wool'],
  ['# wool is a fabric', '%%wool\n# wool is a fabric'],
  ['# woolly', '%%wool\n# woolly'],
  ['# wool - a fabric', '%%wool\n# wool - a fabric']
])('%j goes to wool as %j', (source, wool) => {
  expect(runsOnWool(source)).toBe(false);
  expect(after(source, toWool(source))).toBe(wool);
  expect(runsOnWool(wool)).toBe(true);
  expect(toWool(wool)).toBeNull();
});

test.each([
  ['%%wool\nx = 1', 'x = 1'],
  ['%%wool -o x  # only this\nx = 1', 'x = 1'],
  ['%%wool', ''],
  ['\n\n%%wool\nx = 1', '\n\nx = 1'],
  ['%%time\n%%wool\nx = 1', '%%time\nx = 1'],
  ['# wool\nx = 1', 'x = 1'],
  ['#wool: -o x\nx = 1', 'x = 1'],
  ['# wool --bg\nx = 1', 'x = 1'],
  ['\n# wool :\nx = 1', '\nx = 1'],
  ['%%time\n# wool\nx = 1', '%%time\nx = 1']
])('%j comes back as %j', (wool, source) => {
  expect(after(wool, fromWool(wool))).toBe(source);
});

test.each(['x = 1\n# wool', '%%woolly\nx', 'x = 1\n%%wool', '%%bash\n%%wool', 'print("%%wool")'])(
  '%j does not run on wool',
  source => {
    expect(runsOnWool(source)).toBe(false);
    expect(fromWool(source)).toBeNull();
  }
);

test.each([
  ['%load_ext wool_jupyter', true],
  ['import numpy\nimport wool_jupyter as wj', true],
  ['if big:\n    from wool_jupyter import pool', true],
  ['%%wool\nx', true],
  ['# wool --bg\nx', true],
  ['import wool', false],
  ['print("import wool_jupyter")', false],
  ['x = 1', false]
])('that %j was run may mean that wool is there: %s', (source, mentions) => {
  expect(mentionsWool(source)).toBe(mentions);
});
