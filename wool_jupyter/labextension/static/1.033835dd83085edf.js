"use strict";(self.rspackChunkwool_jupyter_labextension=self.rspackChunkwool_jupyter_labextension||[]).push([[1],{20(o,e,t){var a=t(21),r=t.n(a),n=t(22),l=t.n(n),i=t(23),p=t(24),s=l()(r());s.i(i.A),s.i(p.A),s.push([o.id,`
`,""]),t.d(e,{},{A:s})},24(o,e,t){var a=t(21),r=t.n(a),n=t(22),l=(t.n(n))()(r());l.push([o.id,`.jp-WoolPanel {
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  min-width: 240px;
  overflow-y: auto;
}

.jp-WoolPanel-name {
  border-bottom: 1px solid var(--jp-border-color2);
  font-size: var(--jp-ui-font-size1);
  font-weight: 600;
  overflow: hidden;
  padding: 8px 12px;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.jp-WoolPanel-name:empty {
  display: none;
}

.jp-WoolPanel-message {
  padding: 12px;
}

.jp-WoolPanel-message[hidden] {
  display: none;
}

.jp-WoolPanel-words {
  margin: 0 0 8px;
}

.jp-WoolPanel-message .jp-Wool-button {
  border-color: var(--jp-border-color1);
}

.jp-WoolBadge {
  align-items: center;
  color: var(--wool-soft);
  column-gap: 6px;
  display: flex;
  font-family: var(--jp-ui-font-family);
  font-size: var(--wool-small);
  font-variant-numeric: tabular-nums;
  justify-content: flex-end;
  line-height: 1.5;
  padding: 2px 4px 0 0;
}

.jp-WoolBadge .jp-Wool-dot {
  height: 8px;
  width: 8px;
}

.jp-WoolBadge[data-state='running'] {
  --wool-state: var(--wool-busy);
}

.jp-WoolBadge[data-state='ok'] {
  --wool-state: var(--wool-idle);
}

.jp-WoolBadge:is([data-state='waiting'], [data-state='interrupted']) {
  --wool-state: var(--wool-wait);
}

.jp-WoolBadge:is([data-state='error'], [data-state='died']) {
  --wool-state: var(--wool-dead);
}

.jp-WoolBadge:is([data-state='error'], [data-state='died']) .jp-Wool-dot {
  border-radius: 1px;
}

.jp-WoolStatus {
  display: flex;
}

.jp-WoolStatus-button {
  background: none;
  border: 0;
  color: inherit;
  cursor: pointer;
  font: inherit;
  padding: 0 4px;
}

.jp-WoolStatus-button:focus-visible {
  outline: 2px solid var(--wool-busy);
  outline-offset: -2px;
}
`,""]),t.d(e,{},{A:l})},23(o,e,t){var a=t(21),r=t.n(a),n=t(22),l=(t.n(n))()(r());l.push([o.id,`/* The pool's picture, in the panel and in the widget. Outside of JupyterLab its variables are missing: then the fallbacks count. */

:is(.jp-Wool, .jp-WoolBadge, .jp-WoolStatus) {
  --wool-text: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  --wool-soft: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, GrayText));
  --wool-ground: var(--jp-layout-color1, var(--vscode-editor-background, Canvas));
  --wool-raised: var(--jp-layout-color2, var(--vscode-editorWidget-background, rgb(128 128 128 / 12%)));
  --wool-line: var(--jp-border-color2, var(--vscode-widget-border, rgb(128 128 128 / 35%)));
  --wool-busy: var(--jp-brand-color1, #1976d2);
  --wool-idle: var(--jp-success-color1, #388e3c);
  --wool-wait: var(--jp-warn-color1, #f57c00);
  --wool-dead: var(--jp-error-color1, #d32f2f);
  --wool-mono: var(--jp-code-font-family, ui-monospace, monospace);
  --wool-small: var(--jp-ui-font-size0, 11px);
  --wool-state: var(--wool-soft);
}

.jp-Wool {
  box-sizing: border-box;
  color: var(--wool-text);
  container-type: inline-size;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px);
  line-height: 1.4;
}

.jp-Wool [hidden] {
  display: none;
}

.jp-Wool-header,
.jp-Wool-worker {
  column-gap: 10px;
  display: grid;
  grid-template-columns: minmax(0, 1fr) auto;
  padding: 8px 12px;
  row-gap: 4px;
}

.jp-Wool-header {
  align-items: center;
  border-bottom: 1px solid var(--wool-line);
}

.jp-Wool [data-state='busy'] {
  --wool-state: var(--wool-busy);
}

.jp-Wool :is([data-state='idle'], [data-state='running']) {
  --wool-state: var(--wool-idle);
}

.jp-Wool :is([data-state='starting'], [data-state='draining']) {
  --wool-state: var(--wool-wait);
}

.jp-Wool :is([data-state='dead'], [data-state='lost']) {
  --wool-state: var(--wool-dead);
}

.jp-Wool-workers {
  list-style: none;
  margin: 0;
  outline-offset: -2px;
  padding: 0;
}

.jp-Wool-worker {
  border-bottom: 1px solid var(--wool-line);
  content-visibility: auto;
  contain-intrinsic-block-size: auto 92px;
}

.jp-Wool-who {
  align-items: center;
  column-gap: 7px;
  display: flex;
  flex-wrap: wrap;
  min-width: 0;
}

/* Shape tells the state, too: a full dot works, a ring rests, a square is dead. */
.jp-Wool-dot {
  background: var(--wool-state);
  border: 2px solid var(--wool-state);
  border-radius: 50%;
  box-sizing: border-box;
  flex: none;
  height: 10px;
  width: 10px;
}

.jp-Wool :is([data-state='idle'], [data-state='none'], [data-state='starting']) .jp-Wool-dot {
  background: transparent;
}

.jp-Wool :is([data-state='dead'], [data-state='lost']) .jp-Wool-dot {
  border-radius: 1px;
}

.jp-Wool-worker:is([data-state='starting'], [data-state='busy']) .jp-Wool-dot {
  animation: jp-Wool-pulse 2s ease-in-out infinite;
}

@keyframes jp-Wool-pulse {
  50% {
    opacity: 0.35;
  }
}

@media (prefers-reduced-motion: reduce) {
  .jp-Wool-worker .jp-Wool-dot {
    animation: none;
  }
}

.jp-Wool-poolState {
  font-weight: 600;
}

.jp-Wool-uid {
  background: none;
  color: inherit;
  font-family: var(--wool-mono);
  font-size: inherit;
  padding: 0;
}

.jp-Wool :is(.jp-Wool-state, .jp-Wool-size, .jp-Wool-facts, .jp-Wool-meterName) {
  color: var(--wool-soft);
}

.jp-Wool :is(.jp-Wool-facts, .jp-Wool-why, .jp-Wool-task, .jp-Wool-meters, .jp-Wool-question) {
  grid-column: 1 / -1;
}

.jp-Wool :is(.jp-Wool-facts, .jp-Wool-meter, .jp-Wool-tag) {
  font-size: var(--wool-small);
}

.jp-Wool-facts {
  overflow-wrap: anywhere;
}

.jp-Wool-why {
  overflow-wrap: anywhere;
}

.jp-Wool-tags {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
}

.jp-Wool-tag {
  background: var(--wool-raised);
  border-radius: 3px;
  max-width: 16ch;
  overflow: hidden;
  padding: 0 5px;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.jp-Wool-task {
  column-gap: 8px;
  display: flex;
  justify-content: space-between;
  order: 1;
}

.jp-Wool-worker > :is(.jp-Wool-why, .jp-Wool-meters, .jp-Wool-facts, .jp-Wool-question) {
  order: 2;
}

.jp-Wool-label {
  font-family: var(--wool-mono);
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.jp-Wool-elapsed {
  flex: none;
  font-variant-numeric: tabular-nums;
}

.jp-Wool-buttons {
  align-items: center;
  display: flex;
  gap: 2px;
}

.jp-Wool-button {
  align-items: center;
  background: none;
  border: 1px solid transparent;
  border-radius: var(--jp-border-radius, 3px);
  color: var(--wool-text);
  cursor: pointer;
  display: inline-flex;
  font: inherit;
  gap: 5px;
  height: 26px;
  justify-content: center;
  min-width: 26px;
  padding: 0 4px;
}

.jp-Wool-button:has(.jp-Wool-buttonText) {
  padding: 0 9px 0 6px;
}

.jp-Wool-question .jp-Wool-button {
  border-color: var(--wool-line);
}

.jp-Wool-button:hover:not([aria-disabled]) {
  background: var(--wool-raised);
}

.jp-Wool-button:focus-visible,
.jp-Wool-workers:focus-visible {
  outline: 2px solid var(--wool-busy);
}

.jp-Wool-button[aria-disabled] {
  cursor: default;
  opacity: 0.35;
}

.jp-Wool-icon {
  fill: currentcolor;
  flex: none;
  height: 16px;
  width: 16px;
}

.jp-Wool-meters {
  column-gap: 16px;
  display: grid;
  grid-template-columns: 1fr 1fr;
}

.jp-Wool-meter {
  display: grid;
  grid-template-columns: auto 1fr;
  column-gap: 6px;
  row-gap: 2px;
}

.jp-Wool-meterValue {
  font-variant-numeric: tabular-nums;
  text-align: right;
}

.jp-Wool-spark,
.jp-Wool-bar {
  grid-column: 1 / -1;
  width: 100%;
}

.jp-Wool-spark {
  display: block;
  height: 16px;
}

.jp-Wool-sparkLine {
  fill: none;
  stroke: var(--wool-busy);
  stroke-width: 1.5;
  vector-effect: non-scaling-stroke;
}

.jp-Wool-sparkArea {
  fill: var(--wool-busy);
  opacity: 0.14;
}

.jp-Wool-bar {
  background: var(--wool-raised);
  border-radius: 2px;
  height: 4px;
  overflow: hidden;
  position: relative;
}

.jp-Wool-barFill {
  background: var(--wool-busy);
  inset: 0;
  position: absolute;
  transform-origin: left;
}

.jp-Wool-barMark {
  background: var(--wool-text);
  bottom: 0;
  margin-left: -2px;
  position: absolute;
  top: 0;
  width: 2px;
}

.jp-Wool-question {
  align-items: center;
  column-gap: 10px;
  display: flex;
  flex-wrap: wrap;
  justify-content: space-between;
  row-gap: 4px;
}

.jp-Wool-question .jp-Wool-buttons {
  gap: 6px;
}

.jp-Wool-trouble {
  align-items: start;
  border-bottom: 1px solid var(--wool-line);
  border-left: 3px solid var(--wool-dead);
  column-gap: 8px;
  display: flex;
  justify-content: space-between;
  overflow-wrap: anywhere;
  padding: 6px 12px 6px 9px;
}

.jp-Wool-empty {
  color: var(--jp-ui-font-color2, inherit);
  padding: 12px;
}

.jp-Wool-news {
  clip-path: inset(50%);
  height: 1px;
  overflow: hidden;
  position: absolute;
  white-space: nowrap;
  width: 1px;
}

/* Wide enough for one line of everything. */
@container (min-width: 620px) {
  .jp-Wool-worker {
    align-items: center;
    column-gap: 20px;
    contain-intrinsic-block-size: auto 60px;
    grid-template-columns: minmax(150px, 1.2fr) minmax(90px, 1fr) minmax(240px, 1.6fr) minmax(54px, auto); /* rows without buttons stand in line, too */
  }

  .jp-Wool-worker > .jp-Wool-who {
    grid-column: 1;
    grid-row: 1;
  }

  .jp-Wool-worker > .jp-Wool-task {
    grid-column: 2;
    grid-row: 1;
  }

  .jp-Wool-worker > .jp-Wool-meters {
    grid-column: 3;
    grid-row: 1 / span 2;
  }

  .jp-Wool-worker > .jp-Wool-why {
    grid-column: 2 / span 2;
    grid-row: 1 / span 2;
  }

  .jp-Wool-worker > .jp-Wool-buttons {
    grid-column: 4;
    grid-row: 1 / span 2;
  }

  .jp-Wool-worker > .jp-Wool-facts {
    grid-column: 1 / span 2;
    grid-row: 2;
  }
}
`,""]),t.d(e,{},{A:l})},22(o){o.exports=function(o){var e=[];return e.toString=function(){return this.map(function(e){var t="",a=void 0!==e[5];return e[4]&&(t+="@supports (".concat(e[4],") {")),e[2]&&(t+="@media ".concat(e[2]," {")),a&&(t+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),t+=o(e),a&&(t+="}"),e[2]&&(t+="}"),e[4]&&(t+="}"),t}).join("")},e.i=function(o,t,a,r,n){"string"==typeof o&&(o=[[null,o,void 0]]);var l={};if(a)for(var i=0;i<this.length;i++){var p=this[i][0];null!=p&&(l[p]=!0)}for(var s=0;s<o.length;s++){var d=[].concat(o[s]);a&&l[d[0]]||(void 0!==n&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=n),t&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=t),r&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=r):d[4]="".concat(r)),e.push(d))}},e}},21(o){o.exports=function(o){return o[1]}},14(o){var e=[];function t(o){for(var t=-1,a=0;a<e.length;a++)if(e[a].identifier===o){t=a;break}return t}function a(o,a){for(var r={},n=[],l=0;l<o.length;l++){var i=o[l],p=a.base?i[0]+a.base:i[0],s=r[p]||0,d="".concat(p," ").concat(s);r[p]=s+1;var u=t(d),c={css:i[1],media:i[2],sourceMap:i[3],supports:i[4],layer:i[5]};if(-1!==u)e[u].references++,e[u].updater(c);else{var f=function(o,e){var t=e.domAPI(e);return t.update(o),function(e){e?(e.css!==o.css||e.media!==o.media||e.sourceMap!==o.sourceMap||e.supports!==o.supports||e.layer!==o.layer)&&t.update(o=e):t.remove()}}(c,a);a.byIndex=l,e.splice(l,0,{identifier:d,updater:f,references:1})}n.push(d)}return n}o.exports=function(o,r){var n=a(o=o||[],r=r||{});return function(o){o=o||[];for(var l=0;l<n.length;l++){var i=t(n[l]);e[i].references--}for(var p=a(o,r),s=0;s<n.length;s++){var d=t(n[s]);0===e[d].references&&(e[d].updater(),e.splice(d,1))}n=p}}},16(o){var e={};o.exports=function(o,t){var a=function(o){if(void 0===e[o]){var t=document.querySelector(o);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(o){t=null}e[o]=t}return e[o]}(o);if(!a)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");a.appendChild(t)}},18(o){o.exports=function(o){var e=document.createElement("style");return o.setAttributes(e,o.attributes),o.insert(e,o.options),e}},17(o,e,t){o.exports=function(o){var e=t.nc;e&&o.setAttribute("nonce",e)}},15(o){o.exports=function(o){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=o.insertStyleElement(o);return{update:function(t){var a,r,n;a="",t.supports&&(a+="@supports (".concat(t.supports,") {")),t.media&&(a+="@media ".concat(t.media," {")),(r=void 0!==t.layer)&&(a+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),a+=t.css,r&&(a+="}"),t.media&&(a+="}"),t.supports&&(a+="}"),(n=t.sourceMap)&&"u">typeof btoa&&(a+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(n))))," */")),o.styleTagTransform(a,e,o.options)},remove:function(){var o;null===(o=e).parentNode||o.parentNode.removeChild(o)}}}},19(o){o.exports=function(o,e){if(e.styleSheet)e.styleSheet.cssText=o;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(o))}}},13(o,e,t){var a=t(14),r=t.n(a),n=t(15),l=t.n(n),i=t(16),p=t.n(i),s=t(17),d=t.n(s),u=t(18),c=t.n(u),f=t(19),w=t.n(f),j=t(20),g={};g.styleTagTransform=w(),g.setAttributes=d(),g.insert=p().bind(null,"head"),g.domAPI=l(),g.insertStyleElement=c(),r()(j.A,g),j.A&&j.A.locals&&j.A.locals}}]);