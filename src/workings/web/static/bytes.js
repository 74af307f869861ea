// Numbers that come as base64 of bytes.

export function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) found[k] = raw.charCodeAt(k);
  return found;
}

// Little-endian, as every machine is that has a browser.
export function shorts(text) {
  return new Int16Array(bytes(text).buffer);
}

// A number in units of its last decimal, written out: 1234 with four is 0.1234.
export function written(number, decimals) {
  const digits = String(Math.abs(number)).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  return `${number < 0 ? "−" : ""}${whole}${decimals ? `.${digits.slice(-decimals)}` : ""}`;
}

const dark = matchMedia("(prefers-color-scheme: dark)");

// Which of the two palettes that something brings along; `changed` is told when it is the other.
export function palette(told) {
  return dark.matches ? told.dark : told.light;
}

export function onTheme(changed) {
  dark.addEventListener("change", changed);
  return () => dark.removeEventListener("change", changed);
}

// Draw levels, a byte a cell, one pixel each; 255 is left open.
export function paint(canvas, levels, [rows, columns], colours) {
  const inks = Uint32Array.from(colours, (colour) => {
    const [red, green, blue] = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
    return new Uint32Array(Uint8ClampedArray.of(red, green, blue, 255).buffer)[0];
  });
  Object.assign(canvas, { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let k = 0; k < pixels.length; k++) pixels[k] = levels[k] === 255 ? 0 : inks[levels[k]];
  canvas.getContext("2d").putImageData(image, 0, 0);
}
