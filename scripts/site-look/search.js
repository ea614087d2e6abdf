// SPDX-License-Identifier: Apache-2.0
// The search of the site that scripts/site makes, which puts in the words of its pages. A page
// loads it as a script and not as data, so that it works from a folder, without a server.
"use strict";
const DATA = null;
const MOST = 20;

/* The sections that have a word which begins so, each with how well it fits: 2 if it is it. */
function sectionsWith(start) {
  const fits = new Map();
  for (const [word, steps] of Object.entries(DATA.words)) {
    if (!word.startsWith(start)) continue;
    let section = 0;
    for (const step of steps) {
      section += step;
      fits.set(section, Math.max(fits.get(section) || 0, word === start ? 2 : 1));
    }
  }
  return fits;
}

/* What has every word of the query, best first: in a title, as whole words, early in the guide. */
function find(query) {
  const words = query.toLowerCase().split(/[^\p{L}\p{N}_.-]+/u)
    .map((word) => word.replace(/^[-_.]+|[-_.]+$/g, "")).filter(Boolean);
  if (!words.length) return [];
  const fits = words.map(sectionsWith);
  const found = [];
  for (const section of fits[0].keys()) {
    if (!fits.every((each) => each.has(section))) continue;
    const [page, anchor, title] = DATA.sections[section];
    const [file, pageTitle] = DATA.pages[page];
    const titles = `${pageTitle} ${title}`.toLowerCase();
    const score = fits.reduce((sum, each, i) =>
      sum + each.get(section) + (titles.includes(words[i]) ? 4 : 0), 0);
    found.push({ score, section, url: `${file}#${anchor}`, page: pageTitle, title });
  }
  found.sort((one, other) => other.score - one.score || one.section - other.section);
  return found.slice(0, MOST);
}

function show(box, list, up) {
  list.replaceChildren();
  const found = find(box.value);
  for (const each of found) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = up + each.url;
    link.textContent = each.page === each.title ? each.page : `${each.page}: ${each.title}`;
    item.append(link);
    list.append(item);
  }
  if (!found.length) list.append(box.value.trim() ? "Nothing found" : "");
  list.hidden = !box.value.trim();
}

if (typeof document === "undefined") {
  module.exports = find;
} else {
  const up = document.currentScript.dataset.up;
  const box = document.getElementById("search");
  const list = document.getElementById("found");
  box.hidden = false;
  box.addEventListener("input", () => show(box, list, up));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && list.querySelector("a")) list.querySelector("a").click();
    if (event.key === "Escape") list.hidden = true;
  });
  // Where there is no room beside the page, the contents open on demand.
  document.querySelector("nav.menu details").open = matchMedia("(min-width: 60rem)").matches;
}
