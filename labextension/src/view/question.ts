import { Button } from './button';
import { element, setShown, setText } from './element';
import { IconName } from './icons';

interface IQuestion {
  readonly text: string;
  readonly icon: IconName;
  readonly verb: string;
  readonly then: () => void;
}

/** Asks before something is lost, in place. Escape says no; the focus goes back to where it came from. */
export class Question {
  readonly node: HTMLElement;

  constructor() {
    this.node = element(
      'div',
      'jp-Wool-question',
      { role: 'group', 'aria-label': 'Are you sure?' },
      this._text,
      this._buttons
    );
    this.node.hidden = true;
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this.drop();
      }
    });
  }

  ask({ text, icon, verb, then }: IQuestion): void {
    this._before = document.activeElement;
    setText(this._text, text);
    const yes = new Button({ icon, label: verb, text: verb, press: () => (this.drop(), then()) });
    const no = new Button({ icon: 'dismiss', label: 'Cancel', text: 'Cancel', press: () => this.drop() });
    yes.node.classList.add('jp-mod-yes');
    this._buttons.replaceChildren(yes.node, no.node);
    setShown(this.node, true);
    yes.node.focus();
  }

  /** Idempotent: also when what was asked about has gone by itself. */
  drop(): void {
    if (this.node.hidden) {
      return;
    }
    const focused = this.node.contains(document.activeElement);
    setShown(this.node, false);
    if (focused && this._before instanceof HTMLElement) {
      this._before.focus();
    }
  }

  private readonly _text = element('span', 'jp-Wool-questionText');
  private readonly _buttons = element('span', 'jp-Wool-buttons');
  private _before: Element | null = null;
}
