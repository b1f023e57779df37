/* The order of the search's results: index entries (docs/conf.py), pages to read that are named like
   the words, exact names of the reference, other pages to read, other reference, lists of runs. */
const REFERENCE =
  "api/|architecture|benchmarks|claims|decisions|errata|formats|glossary|index|metrics|options|paper-map";
const WEIGHTS = [
  [/^docs\/runs\//, -10],
  [/^(CHANGELOG|CONTRIBUTING|policies\/)/, -3],
  [new RegExp(`^docs/(${REFERENCE})`), 0],
  [/^/, 6],
];

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 2,
  objPrio: { 0: 5, 1: 5, 2: 0 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, title, , , score, , kind]) => {
    const weight = WEIGHTS.find(([pattern]) => pattern.test(page))[1];
    const query = new URLSearchParams(location.search).get("q").trim().toLowerCase();
    const name = title.toLowerCase();
    const named =
      kind === "text" ? splitQuery(query).every((word) => name.includes(word)) : name === query;
    return score + weight + (named ? 10 : 0);
  },
};
