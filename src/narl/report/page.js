// Draws the charts of the report and makes its tables sortable. Everything is in the page.
"use strict";
(() => {
  const root = document.documentElement;

  const CONFIG = {
    background: null,
    font: getComputedStyle(document.body).fontFamily,
    padding: { left: 0, right: 8, top: 2, bottom: 0 },
    view: { stroke: null, continuousHeight: 300 },
    mark: { invalid: "break-paths-show-domains", aria: false },
    axis: {
      labelColor: "var(--muted)",
      titleColor: "var(--muted)",
      gridColor: "var(--grid)",
      domainColor: "var(--axis)",
      tickColor: "var(--axis)",
      labelFontSize: 11,
      titleFontSize: 12,
      titleFontWeight: "normal",
      titlePadding: 8,
      aria: false,
    },
    axisX: { grid: false },
    axisY: { domain: false, ticks: false, labelPadding: 6 },
    title: { color: "var(--muted)", fontSize: 12, fontWeight: "normal", offset: 10, aria: false },
  };

  // The same numbers as narl.report.number_format writes.
  const number = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    let text;
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) text = String(Number(value.toPrecision(4)));
    else if (size >= 1000) text = value.toLocaleString("en", { maximumFractionDigits: 0 });
    else text = value.toLocaleString("en", { maximumSignificantDigits: 4 });
    return text.replace(/-/g, "−");
  };

  // A number and the ends of its band with equal decimals, as format_rows writes them.
  const numbers = (values) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    const size = Math.max(0, ...known.map(Math.abs));
    if (size === 0 || size < 1e-4 || size >= 1e7) return values.map(number);
    const places = Math.max(0, 3 - Math.floor(Math.log10(size)));
    const cut = known.map((value) => value.toFixed(places).replace(/^[^.]*\.?/, ""));
    const decimals = Math.max(...cut.map((text) => text.replace(/0+$/, "").length));
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    const written = (value) =>
      Number(value.toFixed(decimals)).toLocaleString("en", digits).replace(/^-(?=[0.,]*$)/, "");
    return values.map((value) => (known.includes(value) ? written(value).replace("-", "−") : "–"));
  };

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  // --- the note beside the cursor -------------------------------------------------------------

  const tip = document.getElementById("tip");

  const fillTip = (heading, rows) => {
    const table = element("table");
    for (const row of rows) {
      const line = element("tr");
      const name = element("th");
      name.scope = "row";
      name.append(row.swatch.cloneNode(true), row.s);
      const [y, low, high] = numbers([row.y, row.l, row.h]);
      const band = row.l === null && row.h === null ? "" : `${low} to ${high}`;
      line.append(name, element("td", y), element("td", band, "band"));
      table.append(line);
    }
    tip.replaceChildren(element("p", heading), table);
    tip.hidden = false;
  };

  const placeTip = (x, y) => {
    const { width, height } = tip.getBoundingClientRect();
    const edge = 8;
    const beside = x + 16 + width > innerWidth - edge ? x - 16 - width : x + 16;
    const left = Math.max(edge, Math.min(beside, innerWidth - width - edge));
    const top = Math.max(edge, Math.min(y - height / 2, innerHeight - height - edge));
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };

  // --- one chart ------------------------------------------------------------------------------

  // A name in lines of at most so many letters, unless a single word is longer.
  const wrap = (name, most) => {
    const lines = [];
    for (const word of name.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`;
      if (lines.length && longer.length <= most) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  };

  const unfold = (series, most) =>
    series.flatMap((line) => {
      const dots = new Set(line.dots);
      const label = [...wrap(line.label, most), line.text].join("\n");
      return line.x.map((x, i) => ({
        s: line.label,
        x,
        y: line.y[i],
        l: line.low ? line.low[i] : null,
        h: line.high ? line.high[i] : null,
        dot: dots.has(i),
        t: label,
      }));
    });

  // The points under the cursor: the nearest x of all, and what every line has there.
  const cursorOf = (view, points, hidden, plot) => {
    const swatches = new Map();
    for (const button of plot.closest("figure").querySelectorAll(".legend button"))
      swatches.set(button.dataset.series, button.querySelector("svg"));
    const visible = () => points.filter((p) => p.y !== null && !hidden.has(p.s));
    let at = null;
    let waiting = false;

    const show = (x) => {
      at = x;
      const rows = visible()
        .filter((p) => p.x === x)
        .map((p) => ({ ...p, swatch: swatches.get(p.s) }))
        .sort((a, b) => b.y - a.y);
      if (!waiting) {
        waiting = true;
        requestAnimationFrame(async () => {
          waiting = false;
          const now = at === null ? [] : visible().filter((p) => p.x === at);
          await view.data("cursor", now).data("at", now.slice(0, 1)).runAsync();
        });
      }
      return rows;
    };
    const hide = () => {
      tip.hidden = true;
      show(null);
    };
    const box = () => plot.querySelector("svg").getBoundingClientRect();
    const left = () => box().left + view.padding().left + view.origin()[0];
    const pixel = (event) => event.clientX - left();
    const placeOf = (x) => {
      const scale = view.scale("x");
      return scale(x) + (scale.bandwidth ? scale.bandwidth() / 2 : 0);
    };
    const nearest = (px) => {
      const width = view.width();
      let best = null;
      let least = Infinity;
      for (const p of visible()) {
        const place = placeOf(p.x);
        const far = Math.abs(place - px);
        if (far < least && place >= -1 && place <= width + 1) [best, least] = [p.x, far];
      }
      return best;
    };
    return { show, hide, box, left, pixel, nearest, placeOf, at: () => at, visible };
  };

  const followPointer = (view, cursor, plot, xLabel) => {
    plot.addEventListener("pointermove", (event) => {
      if (event.buttons && event.pointerType === "mouse") return cursor.hide();
      const px = cursor.pixel(event);
      const x = px < -8 || px > view.width() + 8 ? null : cursor.nearest(px);
      if (x === null) return cursor.hide();
      fillTip(`${xLabel} ${number(x)}`, cursor.show(x));
      return placeTip(event.clientX, event.clientY);
    });
    for (const end of ["pointerleave", "pointercancel", "blur"])
      plot.addEventListener(end, cursor.hide);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") cursor.hide();
      if (!step) return;
      event.preventDefault();
      const xs = [...new Set(cursor.visible().map((p) => p.x))].sort((a, b) => a - b);
      if (!xs.length) return;
      const start = step > 0 ? 0 : xs.length - 1;
      const now = xs.indexOf(cursor.at());
      const x = xs[now < 0 ? start : Math.max(0, Math.min(xs.length - 1, now + step))];
      fillTip(`${xLabel} ${number(x)}`, cursor.show(x));
      const box = cursor.box();
      placeTip(cursor.left() + cursor.placeOf(x), box.top + box.height / 2);
    });
  };

  const wireLegend = (view, figure, hidden, cursor) => {
    const buttons = [...figure.querySelectorAll(".legend button")];
    const apply = () => {
      for (const button of buttons)
        button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.series)));
      cursor.hide();
      view.signal("hidden", [...hidden]).resize().runAsync();
    };
    for (const button of buttons) {
      const label = button.dataset.series;
      button.addEventListener("click", () => {
        if (!hidden.delete(label)) hidden.add(label);
        apply();
      });
      button.addEventListener("dblclick", () => {
        const alone = buttons.every((b) => b === button || hidden.has(b.dataset.series));
        hidden.clear();
        if (!alone) for (const b of buttons) if (b !== button) hidden.add(b.dataset.series);
        apply();
      });
    }
  };

  const wireZoom = (view, figure, cursor) => {
    const zoom = (factor) => {
      cursor.hide();
      for (const channel of ["x", "y"]) {
        const scale = view.scale(channel);
        const [from, to] = scale.range();
        const [middle, half] = [(from + to) / 2, (factor * (to - from)) / 2];
        view.signal(`zoom_${channel}`, [scale.invert(middle - half), scale.invert(middle + half)]);
      }
      view.resize().runAsync();
    };
    const reset = () => {
      cursor.hide();
      view.signal("zoom_x", null).signal("zoom_y", null).resize().runAsync();
    };
    const act = { in: () => zoom(2 / 3), out: () => zoom(3 / 2), reset };
    for (const button of figure.querySelectorAll(".zoom button"))
      button.addEventListener("click", act[button.dataset.zoom]);
  };

  const draw = async (figure) => {
    const plot = figure.querySelector(".plot");
    const drawing = JSON.parse(figure.querySelector("script").textContent);
    const isRows = drawing.form === "rows"; // they carry their numbers and need no cursor
    const room = 0.45 * plot.clientWidth; // for the names of rows, left of the axis
    const points = unfold(drawing.series, Math.floor(room / 7));
    const spec = { ...drawing.spec, datasets: { points, cursor: [], at: [], one: [{}] } };
    if (plot.clientWidth < 480 && !isRows) spec.height = 240;
    const most = Math.max(...points.map((point) => point.t.split("\n").length));
    if (isRows) spec.height = points.length * (14 * most + 16);
    const names = { labelLimit: room, labelOffset: -7 * (most - 1) }; // in the middle of their rows
    const { view } = await vegaEmbed(plot, spec, {
      mode: "vega-lite",
      renderer: "svg",
      actions: false,
      tooltip: false,
      defaultStyle: false,
      logLevel: 1, // errors; an empty cursor is no reason for a warning
      ast: true, // no eval, so that the page can forbid it
      config: isRows ? { ...CONFIG, axisY: { ...CONFIG.axisY, ...names } } : CONFIG,
    });
    figure.dataset.drawn = "";
    if (isRows) return;
    const hidden = new Set();
    const cursor = cursorOf(view, points, hidden, plot);
    followPointer(view, cursor, plot, drawing.xLabel);
    wireLegend(view, figure, hidden, cursor);
    wireZoom(view, figure, cursor);
  };

  // --- tables ---------------------------------------------------------------------------------

  const compare = (a, b) => {
    if (a === b) return 0;
    if (a === "" || b === "") return a === "" ? 1 : -1;
    const [x, y] = [Number(a), Number(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return a.localeCompare(b, "en", { numeric: true });
  };

  const wireTable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, place) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[place].dataset.sort ?? row.cells[place].textContent;
        const order = (a, b) => {
          const [x, y] = [key(a), key(b)];
          const missing = x === "" || y === ""; // last, whichever the direction
          return down && !missing ? compare(y, x) : compare(x, y);
        };
        body.append(...[...body.rows].sort(order));
      });
    });
  };

  // --- the contents ---------------------------------------------------------------------------

  const wireContents = (nav) => {
    const button = nav.querySelector("button");
    const open = (value) => button.setAttribute("aria-expanded", String(value));
    button.addEventListener("click", () => open(button.getAttribute("aria-expanded") === "false"));
    nav.addEventListener("click", (event) => event.target.closest("a") && open(false));
    nav.addEventListener("keydown", (event) => event.key === "Escape" && open(false));
    const links = [...nav.querySelectorAll("#contents > li > a")];
    const targets = links.map((link) => document.getElementById(link.hash.slice(1)));
    const mark = () => {
      const passed = targets.filter((target) => target.getBoundingClientRect().top < innerHeight / 3);
      const now = Math.max(0, passed.length - 1);
      links.forEach((link, place) => {
        if (place === now) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
    };
    addEventListener("scroll", mark, { passive: true });
    mark();
  };

  // A link may lead to a part that is folded, or that is inside a folded part.
  const unfoldTarget = (hash) => {
    const target = document.getElementById(decodeURIComponent(hash.slice(1)));
    for (let part = target; part; part = part.parentElement)
      if (part.tagName === "DETAILS") part.open = true;
    return target;
  };

  // The list of runs stays folded: it would fill many sheets.
  const openAll = () =>
    document
      .querySelectorAll("details:not(.runs, .runs details)")
      .forEach((part) => (part.open = true));

  const start = async () => {
    addEventListener("beforeprint", openAll);
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (link) unfoldTarget(link.hash);
    });
    wireContents(document.querySelector("nav.contents"));
    document.querySelectorAll("table.sortable").forEach(wireTable);
    let failed = 0;
    for (const figure of document.querySelectorAll("figure.chart[data-filled]")) {
      try {
        await draw(figure);
      } catch (problem) {
        failed += 1;
        console.error(`chart ${figure.id}: ${problem}`);
        figure.querySelector(".plot").textContent = `This chart could not be drawn: ${problem}`;
      }
    }
    unfoldTarget(location.hash)?.scrollIntoView(); // charts have changed the places of what follows
    root.dataset.ready = failed ? "failed" : "drawn";
  };

  start();
})();
