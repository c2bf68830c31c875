"use strict";
// The browser of points. Whatever comes from the user's file reaches the page as text nodes and
// never as markup. Arrays are written along the ranking: column r belongs to place r + 1.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const PAGE = 10;
  const SMALL_MATRIX = 6;
  const SHORT_NAME = 3;
  const RING = 6; // labels of a cycle, up to which all of its duels are drawn

  const decode = ({ bytes, columns, base64 }) => {
    const raw = atob(base64);
    const values = new Uint32Array(raw.length / bytes);
    for (let i = 0; i < values.length; i++)
      for (let b = bytes - 1; b >= 0; b--) values[i] = values[i] * 256 + raw.charCodeAt(i * bytes + b);
    return { columns, values, at: (point, column = 0) => values[point * columns + column] };
  };
  const field = {};
  for (const [name, packed] of Object.entries(data.fields)) field[name] = decode(packed);
  const hasTruth = "truth" in field;
  const hasLists = "listed" in field;
  const hasPosteriors = field.posteriors.columns > 0;
  const n = field.exact.values.length;
  const duelling = field.won.columns;

  const rowOf = (point) => ("rows" in field ? field.rows.at(point) : point);
  const nameOf = (point) => (data.names ? data.names[point] : `Row ${rowOf(point)}`);
  const labelAt = (point, place) => data.classes[field.order.at(point, place)];
  const truthOf = (point) => data.classes[field.truth.at(point)];
  // Bits along the ranking tell which labels are in the list of a point.
  const isListed = (point, place) => hasLists && ((field.listed.at(point, place >> 3) >> (7 - (place & 7))) & 1) === 1;
  const holds = (point) => field.place.at(point) <= field.order.columns && isListed(point, field.place.at(point) - 1);
  const tenths = (value) => `${(value / 10).toFixed(1)}%`;
  const many = (number, one, more) => `${number.toLocaleString("en")} ${number === 1 ? one : more}`;

  // The duel of places r < s: the chance of r in percent, and whether r loses all the same.
  const duel = (point, r, s) => {
    const column = (r * (2 * duelling - r - 1)) / 2 + s - r - 1;
    const packed = field.duels.at(point, column);
    return { percent: packed & 127, upset: packed > 127 };
  };
  const sureness = (point) =>
    hasPosteriors ? field.posteriors.at(point, 0) : duel(point, 0, 1).percent;

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const drawn = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const joined = (parts, glue) => parts.flatMap((part, i) => (i ? [glue, part] : [part]));
  // Labels may break behind their underscores, as in the rest of the page.
  const foreign = (text) =>
    element("bdi", {}, ...joined(text.match(/_*[^_]+_*|_+/g) || [], null).map((part) => part ?? element("wbr")));

  const FILTERS = [["all", "all points", () => true]];
  if (hasTruth)
    FILTERS.push(
      ["wrong", "right label not first", (point) => field.place.at(point) > 1],
      ["right", "right label first", (point) => field.place.at(point) === 1],
    );
  FILTERS.push(
    ["cycle", "with a cycle", (point) => field.largest_cycle.at(point) > 0],
    ["agree", "without a cycle", (point) => field.largest_cycle.at(point) === 0],
  );
  if (hasLists && hasTruth) FILTERS.push(["unlisted", "right label not in the list", (point) => !holds(point)]);
  const SORTS = [["row", "row", (point) => rowOf(point)]];
  if (hasTruth) SORTS.push(["place", "place of the right label, worst first", (point) => -field.place.at(point)]);
  if (hasLists) SORTS.push(["length", "length of the list, longest first", (point) => -field.length.at(point)]);
  SORTS.push(
    ["unsure", "certainty, least first", sureness],
    ["sure", "certainty, most first", (point) => -sureness(point)],
    ["close", "duel for the first place, closest first", (point) => Math.abs(duel(point, 0, 1).percent - 50)],
    ["cycle", "largest cycle", (point) => -field.largest_cycle.at(point)],
    ["upsets", "upsets, most first", (point) => -field.upsets.at(point)],
    ["first", "label in the first place", (point) => field.order.at(point, 0)],
  );
  if (hasTruth) SORTS.push(["truth", "right label", (point) => field.truth.at(point)]);

  let view = [];
  let page = 0;
  let selected = 0;

  const matches = (words) => {
    const inLabel = data.classes.map((label) => label.toLowerCase().includes(words));
    return (point) =>
      words === "" || String(rowOf(point)) === words || `row ${rowOf(point)}` === words ||
      inLabel[field.order.at(point, 0)] || (hasTruth && inLabel[field.truth.at(point)]) ||
      (data.names !== null && data.names[point].toLowerCase().includes(words));
  };

  const choose = () => {
    const keep = FILTERS.find(([key]) => key === byId("filter").value)[2];
    const key = SORTS.find(([name]) => name === byId("sort").value)[2];
    const found = matches(byId("search").value.trim().toLowerCase());
    view = [];
    for (let point = 0; point < n; point++) if (keep(point) && found(point)) view.push(point);
    const keys = new Map(view.map((point) => [point, key(point)]));
    view.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
    page = 0;
    byId("found").textContent =
      view.length === n ? many(n, "point", "points") : `${view.length.toLocaleString("en")} of ${many(n, "point", "points")}`;
    if (view.length > 0) select(view[0]);
    else list();
  };

  const list = () => {
    const shown = view.slice(page * PAGE, (page + 1) * PAGE);
    const box = byId("list");
    box.replaceChildren(...shown.map((point, i) => option(point, page * PAGE + i)));
    if (shown.length === 0) box.append(element("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "No point matches."));
    if (shown.includes(selected)) box.setAttribute("aria-activedescendant", `option-${selected}`);
    else box.removeAttribute("aria-activedescendant");
    const pages = Math.max(1, Math.ceil(view.length / PAGE));
    byId("page").textContent = `Page ${page + 1} of ${pages}`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page >= pages - 1;
  };

  const option = (point, position) => {
    const name = element("span", { class: "name" }, foreign(nameOf(point)));
    if (hasTruth) {
      const place = field.place.at(point);
      name.append(element("span", { class: `mark ${place === 1 ? "right" : "wrong"}` }, place === 1 ? "✓ first" : `✗ place ${place}`));
    }
    const what = element("span", { class: "what" }, foreign(labelAt(point, 0)));
    if (hasPosteriors) what.append(` (${tenths(field.posteriors.at(point, 0))})`);
    if (hasTruth && field.place.at(point) > 1) what.append(", is ", foreign(truthOf(point)));
    if (field.largest_cycle.at(point) > 0) what.append(` · cycle of ${field.largest_cycle.at(point)}`);
    const made = element("li", {
      role: "option", id: `option-${point}`, "aria-selected": String(point === selected),
      "aria-setsize": view.length, "aria-posinset": position + 1,
    }, name, what);
    made.addEventListener("click", () => {
      pick(point);
      // On a phone the point is shown below the list: go there.
      if (byId("point").getBoundingClientRect().top > window.innerHeight * 0.75) byId("point").scrollIntoView();
    });
    return made;
  };

  const select = (point) => {
    selected = point;
    page = Math.floor(view.indexOf(point) / PAGE);
    list();
    show(point);
  };

  // The address names the point once someone picked it, so that it can be passed on.
  const pick = (point) => {
    select(point);
    try {
      history.replaceState(null, "", `#row=${rowOf(point)}`);
    } catch {
      // Pages embedded elsewhere may have no address of their own.
    }
  };

  const follow = () => {
    const asked = /^#row=(\d+)$/.exec(location.hash);
    if (!asked) return;
    const point = view.find((candidate) => rowOf(candidate) === Number(asked[1]));
    if (point === undefined) return;
    select(point);
    byId("point").scrollIntoView();
  };

  const show = (point) => {
    const parts = [element("h3", { id: "point-heading" }, foreign(nameOf(point)))];
    if (data.names) parts[0].append(` (row ${rowOf(point)})`);
    if (hasTruth) {
      const place = field.place.at(point);
      parts.push(element("p", {}, "Its label, ", foreign(truthOf(point)),
        place === 1 ? ", is ranked first." : `, is in place ${place} of ${data.classes.length}.`));
    }
    parts.push(...inList(point), ...texts(point), ranking(point), ...furtherPlaces(point), ...agreement(point), tournament(point));
    byId("point").replaceChildren(...parts);
  };

  const inList = (point) => {
    if (!hasLists) return [];
    const length = field.length.at(point);
    const words = length === 0 ? "It has no list." : `Its list has ${many(length, "label", "labels")}`;
    if (length === 0) return [element("p", {}, words)];
    const known = hasTruth && (field.place.at(point) <= field.order.columns);
    return [element("p", {}, words, known ? (holds(point) ? ", and its label is among them." : ", and its label is not among them.") : ".")];
  };

  // A word that spoke for the first label is underlined, one that spoke for the second is dotted.
  const texts = (point) => {
    if (!data.texts || data.texts[point].length === 0) return [];
    const made = data.texts[point].map(([column, parts]) => element("p", { class: "words", dir: "auto" },
      element("span", { class: "note" }, foreign(column), ": "),
      ...parts.map(([text, level]) => (level === 0 ? text
        : element("mark", { class: `${level > 0 ? "for" : "against"} level${Math.abs(level)}` }, text)))));
    made.push(element("p", { class: "note" }, element("mark", { class: "for level2" }, "Marked words"), " spoke for ", foreign(labelAt(point, 0)),
      " in its duel with the next label, ", element("mark", { class: "against level2" }, "words marked like this"), " for ", foreign(labelAt(point, 1)), "."));
    return made;
  };

  const ranking = (point) => {
    const head = element("tr", {}, element("th", { scope: "col", class: "number" }, "Place"), element("th", { scope: "col" }, "Label"));
    if (hasPosteriors) head.append(element("th", { scope: "col", colspan: 2 }, "Probability"));
    head.append(element("th", { scope: "col", class: "number" }, "Duels won"));
    const body = element("tbody");
    for (let place = 0; place < duelling; place++) {
      const label = element("th", { scope: "row" }, foreign(labelAt(point, place)));
      if (hasTruth && field.place.at(point) === place + 1) label.append(" ", element("span", { class: "badge truth" }, "its label"));
      if (isListed(point, place)) label.append(" ", element("span", { class: "badge listed" }, "in the list"));
      if (field.cycle.at(point, place) > 0) label.append(" ", element("span", { class: "badge cycle" }, "in a cycle"));
      const row = element("tr", {}, element("td", { class: "number" }, String(place + 1)), label);
      if (hasPosteriors) {
        const share = field.posteriors.at(point, place);
        row.append(element("td", { class: "number" }, tenths(share)), element("td", { class: "gauge" }, meter(share / 10)));
      }
      row.append(element("td", { class: "number" }, `${field.won.at(point, place)}`));
      body.append(row);
    }
    return element("table", { class: `ranking${hasPosteriors ? "" : " plain"}` }, element("caption", {}, "Its ranking, best first."), element("thead", {}, head), body);
  };

  const meter = (percent) =>
    drawn("svg", { class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      drawn("rect", { class: "rest", width: 100, height: 8 }),
      drawn("rect", { class: "part", width: percent, height: 8 }));

  const furtherPlaces = (point) => {
    const listed = field.order.columns;
    if (listed === duelling) return [];
    const items = element("ol", { class: "behind", start: duelling + 1 });
    for (let place = duelling; place < listed; place++) {
      const item = element("li", {}, foreign(labelAt(point, place)));
      if (hasTruth && field.place.at(point) === place + 1) item.append(" ", element("span", { class: "badge truth" }, "its label"));
      if (isListed(point, place)) item.append(" ", element("span", { class: "badge listed" }, "in the list"));
      items.append(item);
    }
    const parts = [element("details", {}, element("summary", {}, `Places ${duelling + 1} to ${listed}`), items)];
    if (hasTruth && field.place.at(point) > duelling) parts[0].open = true;
    return parts;
  };

  const agreement = (point) => {
    const upsets = field.upsets.at(point);
    const total = (data.classes.length * (data.classes.length - 1)) / 2;
    if (data.classes.length < 3) return [];
    const cyclic = field.largest_cycle.at(point) > 0;
    if (upsets === 0) return [element("p", {}, "No cycle: all duels agree with the ranking.")];
    const parts = [element("h3", {}, cyclic ? "The cycle and how it was resolved" : "Where ranking and duels differ")];
    for (const members of cyclesOf(point)) parts.push(...cycleShown(point, members));
    parts.push(element("p", {}, `${data.resolution} The ranking goes against ${many(upsets, "duel", "duels")} of ${total.toLocaleString("en")}:`));
    const items = element("ul", { class: "upsets" });
    let told = 0;
    for (let r = 0; r < duelling && told < 6; r++)
      for (let s = r + 1; s < duelling && told < 6; s++)
        if (duel(point, r, s).upset) {
          items.append(element("li", {}, foreign(labelAt(point, s)), ` in place ${s + 1} beats `, foreign(labelAt(point, r)), ` in place ${r + 1} (${chance(point, s, r)}%)`));
          told++;
        }
    if (upsets > told) items.append(element("li", {}, told ? `${many(upsets - told, "more", "more")}` : `all of them behind place ${duelling}`));
    parts.push(items);
    if (!field.exact.at(point)) parts.push(element("p", { class: "note" }, "The feedback arc set is not proved to be minimal."));
    return parts;
  };

  const chance = (point, winner, loser) =>
    winner < loser ? duel(point, winner, loser).percent : 100 - duel(point, loser, winner).percent;
  const beats = (point, a, b) => (a < b ? !duel(point, a, b).upset : duel(point, b, a).upset);
  const victory = (point, winner, loser) =>
    [foreign(labelAt(point, winner)), " beats ", foreign(labelAt(point, loser)), ` (${chance(point, winner, loser)}%)`];

  const cyclesOf = (point) => {
    const cycles = new Map();
    for (let place = 0; place < duelling; place++) {
      const number = field.cycle.at(point, place);
      if (number > 0) cycles.set(number, [...(cycles.get(number) || []), place]);
    }
    return [...cycles.values()].filter((members) => members.length > 2);
  };

  const cycleShown = (point, members) => {
    const parts = [];
    const three = circleOfThree(point, members);
    if (three)
      parts.push(element("p", {}, `Places ${members.map((place) => place + 1).join(", ")} form a cycle; for example, `,
        ...joined([[0, 1], [1, 2], [2, 0]].map(([a, b]) => victory(point, three[a], three[b])), [", "]).flat(), "."));
    parts.push(ring(point, members));
    return parts;
  };

  const circleOfThree = (point, members) => {
    for (const a of members)
      for (const b of members)
        for (const c of members)
          if (a < b && a < c && b !== c && beats(point, a, b) && beats(point, b, c) && beats(point, c, a)) return [a, b, c];
    return null;
  };

  const ring = (point, members) => {
    const size = 270, radius = 118, node = 13;
    const at = members.map((_, i) => {
      const angle = (2 * Math.PI * i) / members.length - Math.PI / 2;
      return [size / 2 + radius * Math.cos(angle), size / 2 + radius * Math.sin(angle)];
    });
    const picture = drawn("svg", { class: "ring", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": "The duels of the cycle, by place; arrows go from winner to loser" });
    const arrows = [];
    members.forEach((r, i) => members.forEach((s, j) => {
      if (i >= j) return;
      const upset = duel(point, r, s).upset;
      if (upset || members.length <= RING) arrows.push(upset ? [j, i, true] : [i, j, false]);
    }));
    arrows.sort((a, b) => a[2] - b[2]);
    for (const [from, to, upset] of arrows) picture.append(...arrow(at[from], at[to], node, upset));
    members.forEach((place, i) => picture.append(
      drawn("circle", { cx: at[i][0], cy: at[i][1], r: node }),
      drawn("text", { x: at[i][0], y: at[i][1] }, String(place + 1))));
    const caption = members.length <= RING
      ? "Arrows go from winner to loser, numbers are places; dashed: upsets, won by the label placed behind."
      : "Upsets only, from winner to loser; numbers are places. All other duels go to the label placed ahead.";
    return element("figure", {}, picture, element("figcaption", {}, caption));
  };

  const arrow = ([x1, y1], [x2, y2], node, upset) => {
    const length = Math.hypot(x2 - x1, y2 - y1);
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const tip = [x2 - dx * (node + 2), y2 - dy * (node + 2)];
    const back = [tip[0] - dx * 11, tip[1] - dy * 11];
    const style = upset ? " upset" : "";
    return [
      drawn("line", { class: `arrow${style}`, x1: x1 + dx * node, y1: y1 + dy * node, x2: back[0], y2: back[1] }),
      drawn("polygon", { class: `head${style}`, points: [tip, [back[0] - dy * 5, back[1] + dx * 5], [back[0] + dy * 5, back[1] - dx * 5]].map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ") }),
    ];
  };

  const tournament = (point) => {
    const head = element("tr", {}, element("td"));
    const short = data.classes.every((label) => [...label].length <= SHORT_NAME);
    const size = duelling <= SMALL_MATRIX ? " small" : short ? " short" : "";
    const body = element("tbody");
    for (let r = 0; r < duelling; r++) {
      head.append(element("th", { scope: "col" }, short ? foreign(labelAt(point, r)) : String(r + 1)));
      const row = element("tr", {}, element("th", { scope: "row" }, ...(short ? [] : [element("b", {}, String(r + 1))]), element("span", {}, foreign(labelAt(point, r)))));
      for (let s = 0; s < duelling; s++) {
        if (r === s) { row.append(element("td", { class: "self" }, "·")); continue; }
        const percent = chance(point, r, s);
        const upset = duel(point, Math.min(r, s), Math.max(r, s)).upset;
        const cell = element("td", { class: `p${Math.round(percent / 10)}${upset ? " upset" : ""}` }, String(percent));
        cell.title = `${labelAt(point, r)} ${beats(point, r, s) ? "beats" : "loses to"} ${labelAt(point, s)}: ${percent}%`;
        row.append(cell);
      }
      body.append(row);
    }
    const among = duelling < data.classes.length ? ` among the first ${duelling} places` : "";
    const what = data.hasProbabilities ? "Probability" : "How sure it is";
    // Not a caption: that would be as narrow as a small matrix.
    const caption = element("p", { class: "note", id: "tournament-caption" }, `${what}, in percent, that the label of the row beats the label of the column${among}, labels in the order of the ranking. Boxed: upsets, won by the label placed behind.`);
    const table = element("table", { class: `matrix${size}`, "aria-describedby": "tournament-caption" },
      element("thead", {}, head), body);
    return element("div", {}, element("h3", {}, "Its tournament"), caption, table);
  };

  const move = (event) => {
    if (view.length === 0) return;
    const here = view.indexOf(selected);
    const steps = { ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + PAGE, PageUp: here - PAGE, Home: 0, End: view.length - 1 };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    pick(view[Math.min(Math.max(steps[event.key], 0), view.length - 1)]);
    byId(`option-${selected}`).scrollIntoView({ block: "nearest" });
  };

  const turn = (by) => {
    page += by;
    pick(view[page * PAGE]);
  };

  const start = () => {
    for (const [key, name] of FILTERS) byId("filter").append(element("option", { value: key }, name));
    for (const [key, name] of SORTS) byId("sort").append(element("option", { value: key }, name));
    byId("search").addEventListener("input", choose);
    byId("search").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      byId("list").focus();
    });
    byId("filter").addEventListener("change", choose);
    byId("sort").addEventListener("change", choose);
    byId("list").addEventListener("keydown", move);
    byId("previous").addEventListener("click", () => turn(-1));
    byId("next").addEventListener("click", () => turn(1));
    window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
    window.addEventListener("hashchange", follow);
    byId("browser").hidden = false;
    byId("unscripted").hidden = true;
    choose();
    follow();
  };
  start();
})();
