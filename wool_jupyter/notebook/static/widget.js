// src/pool/kernelClock.ts
var KernelClock = class {
  /** `now`: this page's epoch seconds at which a snapshot of the kernel's `time` came. */
  heard(time, now) {
    this._behind = this._behind === null ? now - time : Math.min(this._behind, now - time);
  }
  at(now) {
    return now - (this._behind ?? 0);
  }
  _behind = null;
};

// src/pool/reading.ts
function text(value, path2) {
  return typeof value === "string" ? value : refuse("a text", path2);
}
function number(value, path2) {
  return typeof value === "number" ? value : refuse("a number", path2);
}
function flag(value, path2) {
  return typeof value === "boolean" ? value : refuse("true or false", path2);
}
function oneOf(...words) {
  return (value, path2) => words.find((word) => word === value) ?? refuse(`one of ${words.join(", ")}`, path2);
}
function nullable(read) {
  return (value, path2) => value === null ? null : read(value, path2);
}
function listOf(read) {
  return (value, path2) => Array.isArray(value) ? value.map((item, i) => read(item, `${path2}[${i}]`)) : refuse("a list", path2);
}
function record(fields) {
  return (value, path2) => {
    if (!isObject(value)) {
      return refuse("an object", path2);
    }
    const read = Object.entries(fields).map(([name, field]) => [name, field(value[name], `${path2}.${name}`)]);
    return Object.fromEntries(read);
  };
}
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function refuse(wanted, path2) {
  throw new TypeError(`${path2} is not ${wanted}`);
}

// src/pool/requests.ts
var SEEN_EVERY_MS = 1e4;
var answer = record({ did: text, error: text });
function troubleIn(message) {
  try {
    const { did, error } = answer(message, "answer");
    return error === "" && (did === "hello" || did === "seen") ? null : error;
  } catch {
    return null;
  }
}

// src/pool/snapshot.ts
var SCHEMA = 1;
var pool = record({
  state: oneOf("none", "starting", "running", "lost"),
  why: text,
  namespace: text,
  since: nullable(number),
  size: number,
  most: number,
  waiting: number
});
var running = record({ kind: oneOf("cell", "call", "job"), label: text, cell: text, since: number });
var worker = record({
  uid: text,
  pid: nullable(number),
  own: flag,
  tags: listOf(text),
  state: oneOf("starting", "idle", "busy", "draining", "dead"),
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
var cell = record({
  cell: text,
  label: text,
  worker: text,
  state: oneOf("waiting", "running", "ok", "error", "interrupted", "died"),
  since: number,
  ended: nullable(number),
  bytes_in: number,
  bytes_out: number
});
var snapshot = record({ time: number, pool, workers: listOf(worker), cells: listOf(cell) });
var OtherSchema = class extends Error {
};
function readSnapshot(data) {
  if (isObject(data) && typeof data.schema === "number" && data.schema !== SCHEMA) {
    throw new OtherSchema(
      `The kernel's wool_jupyter is of another version than this page's. Reload the page.`
    );
  }
  return snapshot(data, "snapshot");
}
function isWorking(worker2) {
  return worker2.running !== null && worker2.state !== "dead";
}

// src/view/element.ts
function element(tag, className, attributes = {}, ...children) {
  const node = document.createElement(tag);
  node.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(node, name, value);
  }
  node.append(...children);
  return node;
}
function setText(node, text2) {
  if (node.textContent !== text2) {
    node.textContent = text2;
  }
}
function setAttribute(node, name, value) {
  if (value === null) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}
function setShown(node, shown) {
  if (node.hidden === shown) {
    node.hidden = !shown;
  }
}

// src/pool/format.ts
var MINUTE = 60;
var HOUR = 60 * MINUTE;
var DAY = 24 * HOUR;
var UNITS = ["B", "kB", "MB", "GB", "TB"];
var STEP = 1e3;
function elapsed(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) {
    return `${whole} s`;
  }
  if (whole < HOUR) {
    return `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`;
  }
  if (whole < DAY) {
    return `${Math.floor(whole / HOUR)} h ${Math.floor(whole % HOUR / MINUTE)} min`;
  }
  return `${Math.floor(whole / DAY)} d ${Math.floor(whole % DAY / HOUR)} h`;
}
function age(seconds) {
  if (seconds < MINUTE) {
    return "<1 min";
  }
  return seconds < HOUR ? `${Math.floor(seconds / MINUTE)} min` : elapsed(seconds);
}
function bytes(size) {
  const power = size < 1 ? 0 : Math.min(Math.floor(Math.log10(size) / 3), UNITS.length - 1);
  const value = size / STEP ** power;
  const digits = power === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[power] ?? "B"}`;
}
function percent(share) {
  return `${Math.round(share * 100)} %`;
}
function shortUid(uid) {
  return uid.slice(0, 8);
}
function count(number2, one) {
  return `${number2} ${one}${number2 === 1 ? "" : "s"}`;
}
function sentence(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
function unbroken(words) {
  return words.replaceAll(" ", " ");
}

// src/pool/history.ts
var WINDOW_S = 60;
var CLOSEST_S = 1;
var History = class {
  add(snapshot2) {
    const alive = /* @__PURE__ */ new Map();
    for (const { uid, cpu, rss } of snapshot2.workers) {
      const samples = this._samples.get(uid) ?? [];
      if (cpu !== null && rss !== null) {
        append(samples, { time: snapshot2.time, cpu, rss });
      }
      alive.set(uid, samples);
    }
    this._samples = alive;
  }
  of(uid) {
    return this._samples.get(uid) ?? [];
  }
  _samples = /* @__PURE__ */ new Map();
};
function append(samples, sample) {
  const last = samples.at(-1)?.time ?? sample.time - CLOSEST_S;
  if (sample.time === last) {
    return;
  }
  if (sample.time < last) {
    samples.length = 0;
  }
  const before = samples.at(-2);
  if (before !== void 0 && sample.time - before.time < CLOSEST_S) {
    samples.pop();
  }
  samples.push(sample);
  while (samples.length > 0 && (samples[0]?.time ?? 0) < sample.time - WINDOW_S) {
    samples.shift();
  }
}

// src/view/icons.ts
var SVG = "http://www.w3.org/2000/svg";
var ICONS = {
  add: "M7 3h2v4h4v2H9v4H7V9H3V7h4z",
  remove: "M3 7h10v2H3z",
  interrupt: "M4 4h8v8H4z",
  restart: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5h-1.8A3.7 3.7 0 1 1 8 4.3c1 0 1.9.4 2.6 1L8.6 7.3h5V2.4l-1.7 1.7A5.5 5.5 0 0 0 8 2.5z",
  start: "M5 3l8 5-8 5z",
  stop: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.6a4.4 4.4 0 1 1 0 8.8 4.4 4.4 0 0 1 0-8.8zM6 6h4v4H6z",
  dismiss: "M4.4 3.3L8 6.9l3.6-3.6 1.1 1.1L9.1 8l3.6 3.6-1.1 1.1L8 9.1l-3.6 3.6-1.1-1.1L6.9 8 3.3 4.4z"
};
function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "jp-Wool-icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path(ICONS[name]));
  return svg;
}
function path(data) {
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", data);
  return shape;
}

// src/view/button.ts
var Button = class {
  node;
  constructor(options) {
    this.node = element("button", "jp-Wool-button", { type: "button" }, icon(options.icon));
    if (options.text !== void 0) {
      this.node.append(element("span", "jp-Wool-buttonText", {}, options.text));
    }
    this.name(options.label);
    this.node.addEventListener("click", () => {
      if (this._enabled) {
        options.press();
      }
    });
  }
  name(label) {
    setAttribute(this.node, "aria-label", label);
    setAttribute(this.node, "title", label);
  }
  enable(enabled) {
    this._enabled = enabled;
    setAttribute(this.node, "aria-disabled", enabled ? null : "true");
  }
  _enabled = true;
};

// src/view/keyed.ts
var KeyedList = class {
  constructor(_parent, _key, _make) {
    this._parent = _parent;
    this._key = _key;
    this._make = _make;
  }
  _parent;
  _key;
  _make;
  get parts() {
    return this._parts.values();
  }
  show(items, draw) {
    const shown = /* @__PURE__ */ new Map();
    for (const item of items) {
      const key = this._key(item);
      shown.set(key, this._parts.get(key) ?? this._make(item));
    }
    for (const [key, part] of this._parts) {
      if (!shown.has(key)) {
        part.node.remove();
      }
    }
    this._parts = shown;
    let place = this._parent.firstElementChild;
    for (const item of items) {
      const part = shown.get(this._key(item));
      if (part === void 0) {
        continue;
      }
      draw(part, item);
      if (part.node === place) {
        place = place.nextElementSibling;
      } else {
        this._parent.insertBefore(part.node, place);
      }
    }
  }
  _parts = /* @__PURE__ */ new Map();
};

// src/view/question.ts
var Question = class {
  node;
  constructor() {
    this.node = element(
      "div",
      "jp-Wool-question",
      { role: "group", "aria-label": "Are you sure?" },
      this._text,
      this._buttons
    );
    this.node.hidden = true;
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        this.drop();
      }
    });
  }
  ask({ text: text2, icon: icon2, verb, then }) {
    this._before = document.activeElement;
    setText(this._text, text2);
    const yes = new Button({ icon: icon2, label: verb, text: verb, press: () => (this.drop(), then()) });
    const no = new Button({ icon: "dismiss", label: "Cancel", text: "Cancel", press: () => this.drop() });
    yes.node.classList.add("jp-mod-yes");
    this._buttons.replaceChildren(yes.node, no.node);
    setShown(this.node, true);
    yes.node.focus();
  }
  /** Idempotent: also when what was asked about has gone by itself. */
  drop() {
    if (this.node.hidden) {
      return;
    }
    const focused = this.node.contains(document.activeElement);
    setShown(this.node, false);
    if (focused && this._before instanceof HTMLElement) {
      this._before.focus();
    }
  }
  _text = element("span", "jp-Wool-questionText");
  _buttons = element("span", "jp-Wool-buttons");
  _before = null;
};

// src/view/poolHeader.ts
var STATES = {
  none: "No pool",
  starting: "Starting",
  running: "Running",
  lost: "Lost"
};
var PoolHeader = class {
  constructor(_ask) {
    this._ask = _ask;
    this.node = element(
      "div",
      "jp-Wool-header",
      {},
      element(
        "div",
        "jp-Wool-who",
        {},
        element("span", "jp-Wool-dot", { "aria-hidden": "true" }),
        this._state,
        this._size
      ),
      element(
        "div",
        "jp-Wool-buttons",
        { role: "group", "aria-label": "Pool" },
        ...[this._remove, this._add, this._start, this._stop].map((button) => button.node)
      ),
      this._facts,
      this._why,
      this._question.node
    );
  }
  _ask;
  node;
  show(snapshot2, live) {
    this._snapshot = snapshot2;
    const { state, why, size, waiting, namespace } = snapshot2.pool;
    const there = state === "starting" || state === "running";
    setAttribute(this.node, "data-state", state);
    setText(this._state, STATES[state]);
    setText(
      this._size,
      there ? [count(size, "worker"), ...waiting > 0 ? [`${waiting} waiting`] : []].join(", ") : ""
    );
    setText(this._why, why === "" && state === "none" ? "The first %%wool cell starts one." : sentence(why));
    setShown(this._why, this._why.textContent !== "");
    setShown(this._facts, namespace !== "");
    for (const button of [this._remove, this._add, this._stop]) {
      setShown(button.node, there);
      button.enable(live);
    }
    this._remove.enable(live && size > 1);
    setShown(this._start.node, !there);
    this._start.enable(live);
  }
  tick(now) {
    const { namespace, since } = this._snapshot?.pool ?? { namespace: "", since: null };
    setText(this._facts, since === null ? namespace : `${namespace} · up ${age(now - since)}`);
  }
  _scale(by) {
    this._ask({ do: "scale", workers: (this._snapshot?.pool.size ?? 0) + by });
  }
  _askToStop() {
    const workers = this._snapshot?.workers.filter((worker2) => worker2.own) ?? [];
    const then = () => this._ask({ do: "stop" });
    const bodies = workers.filter(isWorking).length;
    const kept = workers.reduce((sum, worker2) => sum + worker2.keeps, 0);
    const lost = [
      ...bodies > 0 ? [`interrupts ${count(bodies, "worker")}`] : [],
      ...kept > 0 ? [`loses ${count(kept, "value")} kept there`] : []
    ];
    if (lost.length === 0) {
      then();
    } else {
      this._question.ask({
        text: `Stopping the pool ${lost.join(" and ")}.`,
        icon: "stop",
        verb: "Stop",
        then
      });
    }
  }
  _state = element("span", "jp-Wool-poolState");
  _size = element("span", "jp-Wool-size");
  _facts = element("div", "jp-Wool-facts");
  _why = element("div", "jp-Wool-why");
  _question = new Question();
  _remove = new Button({
    icon: "remove",
    label: "Remove a worker",
    press: () => this._scale(-1)
  });
  _add = new Button({ icon: "add", label: "Add a worker", press: () => this._scale(1) });
  _stop = new Button({
    icon: "stop",
    label: "Stop the pool",
    press: () => this._askToStop()
  });
  _start = new Button({
    icon: "start",
    label: "Start a pool",
    text: "Start",
    press: () => this._ask({ do: "start" })
  });
  _snapshot = null;
};

// src/view/ticker.ts
var Ticker = class {
  constructor(_tick) {
    this._tick = _tick;
    document.addEventListener("visibilitychange", this._wake);
    this._wake();
  }
  _tick;
  stop() {
    document.removeEventListener("visibilitychange", this._wake);
    clearTimeout(this._timer);
  }
  _wake = () => {
    clearTimeout(this._timer);
    if (document.visibilityState === "visible") {
      this._tick();
      this._timer = setTimeout(this._wake, 1e3 - Date.now() % 1e3);
    }
  };
  _timer;
};

// src/view/meter.ts
var SVG2 = "http://www.w3.org/2000/svg";
var WIDTH = 1e3;
var HEIGHT = 100;
var Meter = class {
  node;
  constructor(name, title) {
    const svg = document.createElementNS(SVG2, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "jp-Wool-spark");
    svg.setAttribute("aria-hidden", "true");
    svg.append(this._area, this._stroke);
    this._area.setAttribute("class", "jp-Wool-sparkArea");
    this._stroke.setAttribute("class", "jp-Wool-sparkLine");
    this.node = element(
      "div",
      "jp-Wool-meter",
      { role: "meter", "aria-label": name, "aria-valuemin": "0", "aria-valuemax": "100", title },
      element("span", "jp-Wool-meterName", {}, name),
      this._value,
      svg,
      element("span", "jp-Wool-bar", {}, this._fill, this._mark)
    );
  }
  show({ share, mark, text: text2, line }) {
    setText(this._value, text2);
    setAttribute(this.node, "aria-valuenow", String(Math.round(clamp(share ?? 0) * 100)));
    setAttribute(this.node, "aria-valuetext", text2);
    setAttribute(this._fill, "style", `transform: scaleX(${clamp(share ?? 0).toFixed(3)})`);
    setAttribute(
      this._mark,
      "style",
      mark === null ? "display: none" : `left: ${(clamp(mark) * 100).toFixed(1)}%`
    );
    const points = line.map(([x, y]) => `${Math.round(x * WIDTH)} ${Math.round((1 - clamp(y)) * HEIGHT)}`);
    setAttribute(this._stroke, "d", points.length > 1 ? `M${points.join("L")}` : "");
    setAttribute(this._area, "d", points.length > 1 ? areaUnder(points) : "");
  }
  describe(title) {
    setAttribute(this.node, "title", title);
  }
  _value = element("span", "jp-Wool-meterValue");
  _fill = element("span", "jp-Wool-barFill");
  _mark = element("span", "jp-Wool-barMark");
  _area = path("");
  _stroke = path("");
};
function areaUnder(points) {
  const x = (point) => point?.split(" ")[0] ?? "0";
  return `M${x(points[0])} ${HEIGHT}L${points.join("L")}L${x(points.at(-1))} ${HEIGHT}Z`;
}
function clamp(share) {
  return Math.min(1, Math.max(0, share));
}

// src/view/workerMeters.ts
function scaleOf(time, workers) {
  const alive = workers.filter((worker2) => worker2.state !== "dead");
  return {
    time,
    cores: Math.max(1, ...alive.map((worker2) => worker2.cpu ?? 0)),
    memory: Math.max(1, ...alive.map((worker2) => worker2.peak ?? worker2.rss ?? 0))
  };
}
var WorkerMeters = class {
  node;
  constructor() {
    this.node = element("div", "jp-Wool-meters", {}, this._cpu.node, this._memory.node);
  }
  show({ cpu, rss, peak }, samples, scale) {
    const line = (of) => samples.map((sample) => [1 - (scale.time - sample.time) / WINDOW_S, of(sample)]);
    this._cpu.show({
      share: cpu === null ? null : cpu / scale.cores,
      mark: null,
      text: cpu === null ? "–" : percent(cpu),
      line: line((sample) => sample.cpu / scale.cores)
    });
    this._memory.show({
      share: rss === null ? null : rss / scale.memory,
      mark: peak === null ? null : peak / scale.memory,
      text: rss === null ? "–" : bytes(rss),
      line: line((sample) => sample.rss / scale.memory)
    });
    this._memory.describe(peak === null ? "Memory" : `Memory; the mark is its peak, ${bytes(peak)}`);
  }
  _cpu = new Meter("CPU", "CPU; 100 % is one core");
  _memory = new Meter("Memory", "Memory");
};

// src/view/workerRow.ts
var WorkerRow = class {
  constructor(_worker, _ask) {
    this._worker = _worker;
    this._ask = _ask;
    const name = shortUid(_worker.uid);
    this._uid.textContent = name;
    this.node = element(
      "li",
      "jp-Wool-worker",
      { "data-uid": _worker.uid },
      element(
        "div",
        "jp-Wool-who",
        {},
        element("span", "jp-Wool-dot", { "aria-hidden": "true" }),
        this._uid,
        this._state,
        this._tags
      ),
      this._task,
      this._buttons,
      this._why,
      this.meters.node,
      this._facts,
      this._question.node
    );
    this._task.append(this._label, this._elapsed);
    this._buttons.append(this._interrupt.node, this._restart.node);
    this._interrupt.name(`Interrupt what worker ${name} runs`);
    this._restart.name(`Restart worker ${name}`);
  }
  _worker;
  _ask;
  node;
  meters = new WorkerMeters();
  /** `live`: the kernel can be asked for something. */
  show(worker2, namespace, live) {
    this._worker = worker2;
    const working = isWorking(worker2);
    const dead = worker2.state === "dead";
    setAttribute(this.node, "data-state", worker2.state);
    setAttribute(this.node, "aria-label", `Worker ${shortUid(worker2.uid)}, ${worker2.state}`);
    setText(this._state, worker2.state);
    setText(this._label, worker2.running?.label ?? "");
    setShown(this._task, worker2.running !== null);
    setText(this._why, sentence(worker2.why));
    setShown(this._why, worker2.why !== "");
    setShown(this.meters.node, worker2.cpu !== null || worker2.rss !== null);
    setShown(this._buttons, !dead);
    setText(this._facts, factsOf(worker2).map(unbroken).join(" · "));
    this._showTags([...worker2.own ? [] : ["borrowed"], ...worker2.tags.filter((tag) => tag !== namespace)]);
    this._interrupt.enable(live && working);
    this._restart.enable(live && !dead && worker2.own);
    if (dead) {
      this._question.drop();
    }
  }
  /** `now`: by the kernel's clock. */
  tick(now) {
    const { running: running2 } = this._worker;
    setText(this._elapsed, running2 === null ? "" : elapsed(now - running2.since));
  }
  _showTags(tags) {
    if (this._tags.childElementCount !== tags.length || this._tags.textContent !== tags.join("")) {
      this._tags.replaceChildren(...tags.map((tag) => element("span", "jp-Wool-tag", {}, tag)));
    }
  }
  _askToRestart() {
    const { uid, running: running2, keeps } = this._worker;
    const then = () => this._ask({ do: "restart", worker: uid });
    const lost = [
      ...isWorking(this._worker) && running2 !== null ? [`ends ${running2.label}`] : [],
      ...keeps > 0 ? [`loses ${count(keeps, "value")} kept here`] : []
    ];
    if (lost.length === 0) {
      then();
    } else {
      this._question.ask({
        text: `A restart ${lost.join(" and ")}.`,
        icon: "restart",
        verb: "Restart",
        then
      });
    }
  }
  _uid = element("code", "jp-Wool-uid");
  _state = element("span", "jp-Wool-state");
  _tags = element("span", "jp-Wool-tags");
  _task = element("div", "jp-Wool-task");
  _label = element("span", "jp-Wool-label");
  _elapsed = element("span", "jp-Wool-elapsed");
  _buttons = element("div", "jp-Wool-buttons");
  _why = element("div", "jp-Wool-why");
  _facts = element("div", "jp-Wool-facts");
  _question = new Question();
  _interrupt = new Button({
    icon: "interrupt",
    label: "Interrupt",
    press: () => this._ask({ do: "interrupt", worker: this._worker.uid })
  });
  _restart = new Button({
    icon: "restart",
    label: "Restart",
    press: () => this._askToRestart()
  });
};
function factsOf(worker2) {
  return [
    ...worker2.pid === null ? [] : [`pid ${worker2.pid}`],
    `${worker2.done} done`,
    ...worker2.keeps > 0 ? [`keeps ${count(worker2.keeps, "value")}`] : [],
    ...worker2.bytes_in > 0 ? [`${bytes(worker2.bytes_in)} in`] : [],
    ...worker2.bytes_out > 0 ? [`${bytes(worker2.bytes_out)} out`] : []
  ];
}

// src/view/poolView.ts
var PoolView = class {
  constructor(_clock, ask) {
    this._clock = _clock;
    this._header = new PoolHeader(ask);
    this._rows = new KeyedList(
      this._list,
      (worker2) => worker2.uid,
      (worker2) => new WorkerRow(worker2, ask)
    );
    this._dismiss = new Button({ icon: "dismiss", label: "Dismiss", press: () => this.report("") });
    this._trouble.append(this._troubleText, this._dismiss.node);
    this._trouble.hidden = true;
    this.node = element(
      "section",
      "jp-Wool",
      { "aria-label": "Wool pool" },
      this._trouble,
      this._header.node,
      this._list,
      this._news
    );
  }
  _clock;
  node;
  /** `live`: the kernel can be asked for something; without it the buttons do nothing. */
  show(snapshot2, live) {
    const focused = this._list.contains(document.activeElement);
    this._announce(snapshot2);
    if (snapshot2 !== this._snapshot) {
      this._history.add(snapshot2);
    }
    this._snapshot = snapshot2;
    this._header.show(snapshot2, live);
    const scale = scaleOf(snapshot2.time, snapshot2.workers);
    this._rows.show(snapshot2.workers, (row, worker2) => {
      row.show(worker2, snapshot2.pool.namespace, live);
      row.meters.show(worker2, this._history.of(worker2.uid), scale);
    });
    setShown(this._list, snapshot2.workers.length > 0);
    this._ticker ??= new Ticker(() => this._tick());
    this._tick();
    if (focused && !this._list.contains(document.activeElement)) {
      this._list.focus();
    }
  }
  /** What went wrong, in words; "" takes it away. */
  report(trouble) {
    setText(this._troubleText, trouble);
    setShown(this._trouble, trouble !== "");
  }
  /** Idempotent. */
  dispose() {
    this._ticker?.stop();
    this.node.remove();
  }
  _tick() {
    const now = this._clock.at(Date.now() / 1e3);
    this._header.tick(now);
    for (const row of this._rows.parts) {
      row.tick(now);
    }
  }
  /** For screen readers: who came and went, no figures. */
  _announce(snapshot2) {
    const before = new Map(this._snapshot?.workers.map((worker2) => [worker2.uid, worker2]));
    const news = snapshot2.workers.flatMap((worker2) => newsOf(before.get(worker2.uid), worker2));
    if (this._snapshot !== null && news.length > 0) {
      setText(this._news, news.join(" "));
    }
  }
  _history = new History();
  _list = element("ul", "jp-Wool-workers", {
    role: "list",
    "aria-label": "Workers",
    tabindex: "-1"
  });
  _news = element("div", "jp-Wool-news", { role: "status" });
  _trouble = element("div", "jp-Wool-trouble", { role: "alert" });
  _troubleText = element("span", "jp-Wool-troubleText");
  _dismiss;
  _header;
  _rows;
  _snapshot = null;
  _ticker = null;
};
function newsOf(before, worker2) {
  const name = `Worker ${shortUid(worker2.uid)}`;
  if (before === void 0) {
    return [`${name} joined.`];
  }
  if (worker2.state === "dead" && before.state !== "dead") {
    return [`${name} ${worker2.why || "died"}.`];
  }
  return [];
}

// src/view/visibility.ts
var Visibility = class {
  constructor(node, _seen, _everyMs) {
    this._seen = _seen;
    this._everyMs = _everyMs;
    this._observer = new IntersectionObserver((entries) => {
      this._onScreen = entries.at(-1)?.isIntersecting ?? false;
      this._check();
    });
    this._observer.observe(node);
    document.addEventListener("visibilitychange", this._check);
  }
  _seen;
  _everyMs;
  stop() {
    this._observer.disconnect();
    document.removeEventListener("visibilitychange", this._check);
    clearTimeout(this._timer);
  }
  _check = () => {
    clearTimeout(this._timer);
    if (this._onScreen && document.visibilityState === "visible") {
      this._seen();
      this._timer = setTimeout(this._check, this._everyMs);
    }
  };
  _observer;
  _onScreen = false;
  _timer;
};

// src/widget.ts
function render({ model, el }) {
  const clock = new KernelClock();
  const ask = (request) => model.send(request);
  const view = new PoolView(clock, ask);
  const waiting = element("div", "jp-Wool-empty", {}, "The pool is not here yet.");
  const draw = () => {
    try {
      const snapshot2 = readSnapshot(model.get("snapshot"));
      clock.heard(snapshot2.time, Date.now() / 1e3);
      view.show(snapshot2, true);
      waiting.remove();
    } catch (error) {
      waiting.textContent = error instanceof Error ? error.message : String(error);
    }
  };
  const answered = (message) => {
    const trouble = troubleIn(message);
    if (trouble !== null) {
      view.report(trouble);
    }
  };
  const seen = new Visibility(el, () => ask({ do: "seen" }), SEEN_EVERY_MS);
  el.classList.add("jp-WoolWidget");
  el.append(view.node, waiting);
  model.on("change:snapshot", draw);
  model.on("msg:custom", answered);
  draw();
  return () => {
    model.off("change:snapshot", draw);
    model.off("msg:custom", answered);
    seen.stop();
    view.dispose();
  };
}
var widget_default = { render };
export {
  widget_default as default
};
