import { KernelClock } from './pool/kernelClock';
import { Ask, SEEN_EVERY_MS, troubleIn } from './pool/requests';
import { readSnapshot } from './pool/snapshot';
import { element } from './view/element';
import { PoolView } from './view/poolView';
import { Visibility } from './view/visibility';

/** Of anywidget's model, what is used here. */
interface IModel {
  get(name: 'snapshot'): unknown;
  on(event: 'change:snapshot', handler: () => void): void;
  on(event: 'msg:custom', handler: (message: unknown) => void): void;
  off(event: 'change:snapshot' | 'msg:custom', handler: unknown): void;
  send(request: unknown): void;
}

/** Called by anywidget for each place where the widget is shown; what it returns undoes it. */
function render({ model, el }: { model: IModel; el: HTMLElement }): () => void {
  const clock = new KernelClock();
  const ask: Ask = request => model.send(request);
  const view = new PoolView(clock, ask);
  const waiting = element('div', 'jp-Wool-empty', {}, 'The pool is not here yet.');

  const draw = () => {
    try {
      const snapshot = readSnapshot(model.get('snapshot'));
      clock.heard(snapshot.time, Date.now() / 1000);
      view.show(snapshot, true);
      waiting.remove();
    } catch (error) {
      waiting.textContent = error instanceof Error ? error.message : String(error);
    }
  };
  const answered = (message: unknown) => {
    const trouble = troubleIn(message);
    if (trouble !== null) {
      view.report(trouble);
    }
  };
  const seen = new Visibility(el, () => ask({ do: 'seen' }), SEEN_EVERY_MS);

  el.classList.add('jp-WoolWidget');
  el.append(view.node, waiting);
  model.on('change:snapshot', draw);
  model.on('msg:custom', answered);
  draw();
  return () => {
    model.off('change:snapshot', draw);
    model.off('msg:custom', answered);
    seen.stop();
    view.dispose();
  };
}

export default { render };
