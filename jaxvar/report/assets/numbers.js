// Numbers as text, and ticks of axes.
const numbers = (() => {
  const MINUS = "\u2212";

  function plain(value, places) {
    const shown = value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
    return shown.replace("-", MINUS);
  }

  // A value with its interval, to two digits of the interval's half width, as in the page's tables.
  function interval(value, low, high) {
    if (low === null || high === null) return plain(value, 2);
    const half = +((high - low) / 2).toExponential(1);
    const places = half > 0 ? Math.max(0, Math.min(12, 1 - Math.floor(Math.log10(half)))) : 2;
    return `${plain(value, places)} [${plain(low, places)}, ${plain(high, places)}]`;
  }

  function tick(value) {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e6 || size < 1e-3) {
      const power = Math.floor(Math.log10(size) + 1e-9);
      const front = +(value / 10 ** power).toPrecision(3);
      return (front === 1 ? "10" : `${front}\u00b710`) + superscript(power);
    }
    return (+value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 }).replace("-", MINUS);
  }

  function superscript(power) {
    const digits = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
    return [...String(power)].map((c) => (c === "-" ? "\u207b" : digits[+c])).join("");
  }

  function linearTicks(low, high, about) {
    const raw = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) ticks.push(i * step);
    return ticks;
  }

  // Powers of ten; on a short axis also their multiples by 2 and 5; on a long one only every other.
  function logTicks(low, high, about) {
    const decades = Math.log10(high / low);
    const fronts = decades < about / 2.5 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(decades / about));
    const ticks = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
      if (p % every) continue;
      for (const front of fronts) {
        const value = front * 10 ** p;
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push(value);
      }
    }
    return ticks;
  }

  // Those of some values whose texts do not touch, at the positions that a scale gives them.
  function apart(values, scale) {
    let end = -Infinity;
    return values.filter((value) => {
      const half = 3.6 * tick(value).length;
      if (scale(value) - half < end + 6) return false;
      end = scale(value) + half;
      return true;
    });
  }

  // A number with all its digits.
  function whole(value) {
    return value === 0 || Math.abs(value) >= 1e-3 ? value.toLocaleString("en-US", { maximumFractionDigits: 6 }).replace("-", MINUS) : tick(value);
  }

  return { apart, interval, linearTicks, logTicks, tick, whole };
})();
