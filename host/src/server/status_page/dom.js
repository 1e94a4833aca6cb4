// Writing to the page. Whatever comes from the gateway is put in as text: names, messages and values were written
// by plugins, upstreams and callers.

const byId = (id) => document.getElementById(id);

function el(tag, names = '', text = '') {
  const node = document.createElement(tag);
  if (names) node.className = names;
  if (text !== '') node.textContent = plain(text);
  return node;
}

/** Changes a text only where it is another, so that a selection lives on and readers of the screen are not called. */
function say(node, text) {
  const shown = plain(text);
  if (node.textContent !== shown) node.textContent = shown;
}

function mark(node, names) {
  if (node.className !== names) node.className = names;
}

function hint(node, text) {
  const shown = plain(text);
  if (node.title !== shown) node.title = shown;
}

/** Children of `parent`, one for each item, kept while their key is there and moved only where they must. */
function keep(parent, items, keyOf, make, update) {
  const known = parent.kept ?? new Map();
  const now = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    if (now.has(key)) continue;
    const node = known.get(key) ?? make(item);
    update?.(node, item);
    now.set(key, node);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const [key, node] of known) if (!now.has(key)) node.remove();
  parent.kept = now;
}

/** A list that shows its first part until somebody asks for the rest. */
function folded(button, items, first, what) {
  const rest = items.length - first;
  button.hidden = rest <= 0;
  const open = button.getAttribute('aria-expanded') === 'true';
  if (!button.armed) {
    button.armed = true;
    button.addEventListener('click', () => {
      button.setAttribute('aria-expanded', String(button.getAttribute('aria-expanded') !== 'true'));
      draw();
    });
  }
  if (rest > 0) say(button, open ? `Show fewer ${what}` : `Show ${rest} more ${what}`);
  return open ? items : items.slice(0, first);
}

/** A row of a table; on narrow screens it is a card whose cells carry their column's name. */
function tableRow(names, columns) {
  const row = el('tr', names);
  row.setAttribute('role', 'row');
  row.cells_ = {};
  columns.forEach(([name, label, kind], at) => {
    const cell = el(at === 0 ? 'th' : 'td', `${name} ${kind ?? ''}`.trim());
    cell.setAttribute('role', at === 0 ? 'rowheader' : 'cell');
    if (at === 0) cell.scope = 'row';
    if (label) cell.dataset.label = label;
    row.append(cell);
    row.cells_[name] = cell;
  });
  return row;
}

// Times left run on between two looks.
const counting = new Map();

/** Shows `before`, and what is left of `ms` since the look. */
function countdown(node, before, ms) {
  if (ms === null) {
    counting.delete(node);
    say(node, before);
  } else {
    counting.set(node, { before, end: looked + ms });
    tick(node, counting.get(node));
  }
}

function tick(node, { before, end }) {
  const rest = end - performance.now();
  say(node, `${before} ${left(rest)}`.trim());
}

function tickAll() {
  for (const [node, what] of counting) {
    if (node.isConnected) tick(node, what);
    else counting.delete(node);
  }
}
