// Draws many points with WebGL2, or on a 2D canvas without it. Independent of input, images and Python.
// Coordinates are floats from -1 to 1; `view` is {x, y, scale}: the centre, and CSS pixels per unit.
// Between two layouts, points are drawn on the way from `before` to their coordinates: `progress` is from 0 to 1.

export const NOWHERE = 9; // earlier coordinate of a new point, which fades in; outside the map

const VERTEX = `#version 300 es
in vec2 before; in vec2 position; in float value; in float flags;
uniform float progress; uniform vec2 middle; uniform vec2 perUnit; uniform float size; uniform float pass; uniform float dimmed;
uniform float span; uniform float highlighted; uniform sampler2D palette;
out vec4 colour; out float edge;
void main() {
  bool shown = mod(flags, 2.0) >= 1.0;
  bool chosen = flags >= 2.0;
  bool fresh = before.x == ${NOWHERE.toFixed(1)};
  vec2 place = fresh ? position : mix(before, position, progress);
  bool now = shown && (pass > 0.5) == chosen;
  gl_Position = now ? vec4((place - middle) * perUnit, 0.0, 1.0) : vec4(9.0, 9.0, 9.0, 1.0);
  gl_PointSize = size * (chosen ? 1.35 : 1.0);
  edge = min(0.5, 1.2 / gl_PointSize); // the outer pixel is smoothed, at every size
  vec4 found = texture(palette, vec2((value > 65534.5 ? span + 0.5 : min(value, span) + 0.5) / (span + 1.0), 0.5));
  if (span > 4095.5) found = texture(palette, vec2(value / 65535.0, 0.5));
  bool other = highlighted >= 0.0 && value != highlighted;
  colour = vec4(found.rgb, (other ? 0.08 : chosen ? 1.0 : dimmed) * (fresh ? progress : 1.0));
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 colour; in float edge; out vec4 result;
void main() {
  float away = length(gl_PointCoord - 0.5);
  float cover = 1.0 - smoothstep(0.5 - edge, 0.5, away);
  if (cover <= 0.0) discard;
  result = vec4(colour.rgb, colour.a * cover);
}`;

const NO_VALUE = 65535;
const RAMP_STEPS = 256;
export const UNKNOWN_COLOUR = [140, 140, 140];

function rgb(hex) {
  const number = parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** Return the colour of every value: one per category and grey for none at the end, or a ramp of 256. */
function buildPalette(scale) {
  if (scale.kind === "categories") {
    const count = Math.max(1, ...scale.entries.map((entry) => entry.value + 1));
    const colours = Array.from({ length: count }, () => UNKNOWN_COLOUR);
    for (const entry of scale.entries) if (entry.value !== NO_VALUE) colours[entry.value] = rgb(entry.colour);
    return [...colours.slice(0, 4095), UNKNOWN_COLOUR];
  }
  const stops = scale.ramp.map(rgb);
  return Array.from({ length: RAMP_STEPS }, (_, step) => {
    const at = (step / (RAMP_STEPS - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    return stops[first].map((from, part) => Math.round(from + (stops[first + 1][part] - from) * (at - first)));
  });
}

export function makePoints(canvas) {
  const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, preserveDrawingBuffer: true });
  return gl ? new WebGlPoints(canvas, gl) : new CanvasPoints(canvas);
}

/** Colours of both kinds of points. */
class ColouredPoints {
  setPalette(scale) {
    this.colours = buildPalette(scale);
    this.isRamp = scale.kind !== "categories";
    return this.colours;
  }

  /** Return the colour of a value, as CSS. */
  getColour(value) {
    const last = this.colours.length - 1;
    const found = this.colours[this.isRamp ? Math.round((value / 65535) * last) : Math.min(value, last)];
    return `rgb(${(value === NO_VALUE ? UNKNOWN_COLOUR : found).join(",")})`;
  }
}

class WebGlPoints extends ColouredPoints {
  constructor(canvas, gl) {
    super();
    this.canvas = canvas;
    this.gl = gl;
    this.kind = "webgl2";
    this.highlighted = -1; // the highlighted value; -1 for none
    this.count = 0;
    this.program = this.link();
    this.at = Object.fromEntries(
      ["progress", "middle", "perUnit", "size", "pass", "dimmed", "span", "highlighted", "palette"].map((name) => [
        name,
        gl.getUniformLocation(this.program, name),
      ]),
    );
    this.buffers = {};
    this.texture = gl.createTexture();
  }

  link() {
    const gl = this.gl;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) || "no shader");
    return program;
  }

  put(name, array, parts, type) {
    const gl = this.gl;
    const location = gl.getAttribLocation(this.program, name);
    this.buffers[name] ||= gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, parts, type, false, 0, 0);
  }

  setCoordinates(coordinates, before = null) {
    this.count = coordinates.length / 2;
    this.put("position", coordinates, 2, this.gl.FLOAT);
    this.setBefore(before);
  }

  /** Set the coordinates that the points come from; null once they have arrived. */
  setBefore(before) {
    const gl = this.gl;
    if (before) {
      this.put("before", before, 2, gl.FLOAT);
    } else if (this.buffers.before) {
      gl.disableVertexAttribArray(gl.getAttribLocation(this.program, "before"));
      gl.deleteBuffer(this.buffers.before);
      this.buffers.before = null;
    }
  }

  setValues(values, scale) {
    const gl = this.gl;
    const palette = this.setPalette(scale);
    this.put("value", values, 1, gl.UNSIGNED_SHORT);
    this.span = this.isRamp ? 65535 : palette.length - 1;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texImage2D(
      gl.TEXTURE_2D, 0, gl.RGB, palette.length, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, new Uint8Array(palette.flat()),
    );
    for (const [name, value] of [
      [gl.TEXTURE_MIN_FILTER, gl.NEAREST], [gl.TEXTURE_MAG_FILTER, gl.NEAREST],
      [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
    ]) gl.texParameteri(gl.TEXTURE_2D, name, value);
  }

  setFlags(flags) {
    this.anyChosen = flags.some((flag) => flag >= 2);
    this.put("flags", flags, 1, this.gl.UNSIGNED_BYTE);
  }

  draw(view, size, background, progress = 1) {
    const { gl, canvas } = this;
    const ratio = canvas.width / canvas.clientWidth || 1;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(background[0] / 255, background[1] / 255, background[2] / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.count) return;
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.uniform1f(this.at.progress, progress);
    gl.uniform2f(this.at.middle, view.x, view.y);
    gl.uniform2f(this.at.perUnit, (2 * view.scale) / canvas.clientWidth, (2 * view.scale) / canvas.clientHeight);
    gl.uniform1f(this.at.size, size * ratio);
    gl.uniform1f(this.at.dimmed, this.anyChosen ? 0.22 : 0.85);
    gl.uniform1f(this.at.span, this.span);
    gl.uniform1f(this.at.highlighted, this.highlighted);
    for (const pass of this.anyChosen ? [0, 1] : [0]) {
      gl.uniform1f(this.at.pass, pass);
      gl.drawArrays(gl.POINTS, 0, this.count);
    }
  }

  destroy() {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

class CanvasPoints extends ColouredPoints {
  constructor(canvas) {
    super();
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.kind = "2d";
    this.highlighted = -1;
    this.count = 0;
  }

  setCoordinates(coordinates, before = null) {
    this.coordinates = coordinates;
    this.count = coordinates.length / 2;
    this.setBefore(before);
  }

  setBefore(before) {
    this.before = before;
  }

  setValues(values, scale) {
    this.values = values;
    this.palette = this.setPalette(scale).map((part) => `rgb(${part.join(",")})`);
  }

  setFlags(flags) {
    this.flags = flags;
    this.anyChosen = flags.some((flag) => flag >= 2);
  }

  draw(view, size, background, progress = 1) {
    const { canvas, context, coordinates, before, palette } = this;
    const ratio = canvas.width / canvas.clientWidth || 1;
    context.globalAlpha = 1;
    context.fillStyle = `rgb(${background.join(",")})`;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const last = palette ? palette.length - 1 : 0;
    for (const pass of this.anyChosen ? [0, 1] : [0]) {
      const usual = pass ? 1 : this.anyChosen ? 0.22 : 0.85;
      const side = size * ratio * (pass ? 1.2 : 0.9);
      for (let row = 0; row < this.count; row++) {
        const flag = this.flags[row];
        if (!(flag & 1) || flag >= 2 !== Boolean(pass)) continue;
        const isNew = before?.[2 * row] === NOWHERE;
        const part = before && !isNew ? progress : 1;
        const from = part < 1 ? before : coordinates;
        const left = from[2 * row] * (1 - part) + coordinates[2 * row] * part;
        const up = from[2 * row + 1] * (1 - part) + coordinates[2 * row + 1] * part;
        const x = canvas.width / 2 + (left - view.x) * view.scale * ratio;
        const y = canvas.height / 2 - (up - view.y) * view.scale * ratio;
        if (x < -side || y < -side || x > canvas.width + side || y > canvas.height + side) continue;
        const value = this.values[row];
        const opacity = this.highlighted >= 0 && value !== this.highlighted ? 0.08 : usual;
        context.globalAlpha = isNew ? opacity * progress : opacity;
        context.fillStyle = palette[this.isRamp ? Math.round((value / 65535) * last) : Math.min(value, last)];
        context.beginPath();
        context.arc(x, y, side / 2, 0, 2 * Math.PI);
        context.fill();
      }
    }
  }

  destroy() {}
}

/** Index that finds the point nearest to a position by a grid, without a search over all points. */
export class NearestPoint {
  constructor(coordinates) {
    this.coordinates = coordinates;
    const count = coordinates.length / 2;
    this.side = Math.max(1, Math.min(512, Math.round(Math.sqrt(count / 4))));
    const cells = this.side * this.side;
    const cellOf = new Uint32Array(count);
    this.starts = new Uint32Array(cells + 1);
    for (let row = 0; row < count; row++) {
      cellOf[row] = this.cell(coordinates[2 * row]) + this.side * this.cell(coordinates[2 * row + 1]);
      this.starts[cellOf[row] + 1]++;
    }
    for (let cell = 0; cell < cells; cell++) this.starts[cell + 1] += this.starts[cell];
    const next = this.starts.slice();
    this.rows = new Uint32Array(count);
    for (let row = 0; row < count; row++) this.rows[next[cellOf[row]]++] = row;
    let occupied = 0;
    for (let cell = 0; cell < cells; cell++) if (this.starts[cell + 1] > this.starts[cell]) occupied++;
    /** Mean distance of neighbouring points: the side of a square with the area of one point. */
    this.spacing = (2 / this.side) * Math.sqrt(occupied / Math.max(1, count));
  }

  cell(value) {
    return Math.max(0, Math.min(this.side - 1, Math.floor(((value + 1) / 2) * this.side)));
  }

  /** Return the number of points in all cells that a rectangle touches. */
  countRows(left, bottom, right, top) {
    let count = 0;
    for (let cy = this.cell(bottom); cy <= this.cell(top); cy++) {
      count += this.starts[this.cell(right) + this.side * cy + 1] - this.starts[this.cell(left) + this.side * cy];
    }
    return count;
  }

  /** Call `action` with the rows of all cells that a rectangle touches. */
  visit(left, bottom, right, top, action) {
    for (let cy = this.cell(bottom); cy <= this.cell(top); cy++) {
      const line = this.side * cy; // the rows of neighbouring cells follow each other
      const end = this.starts[this.cell(right) + line + 1];
      for (let index = this.starts[this.cell(left) + line]; index < end; index++) action(this.rows[index]);
    }
  }

  /** Return the visible point nearest to (x, y) and at most `reach` away; -1 for none. */
  find(x, y, reach, flags) {
    let best = -1;
    let least = reach * reach;
    for (let cy = this.cell(y - reach); cy <= this.cell(y + reach); cy++) {
      for (let cx = this.cell(x - reach); cx <= this.cell(x + reach); cx++) {
        const cell = cx + this.side * cy;
        for (let index = this.starts[cell]; index < this.starts[cell + 1]; index++) {
          const row = this.rows[index];
          if (!(flags[row] & 1)) continue;
          const away = (this.coordinates[2 * row] - x) ** 2 + (this.coordinates[2 * row + 1] - y) ** 2;
          if (away <= least) {
            least = away;
            best = row;
          }
        }
      }
    }
    return best;
  }
}
