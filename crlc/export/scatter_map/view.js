// The visible part of the map: panning, zooming, and coordinates on the screen. No input and no drawing here.
// Coordinates of the map are from -1 to 1; `view` is {x, y, scale}: the centre, and CSS pixels per unit.

class MapView {
  /** Return the scale at which the whole map is visible. */
  computeFittingScale() {
    return 0.47 * Math.min(this.canvas.clientWidth, this.canvas.clientHeight);
  }

  fit(again = false) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return; // a hidden tab: the observer calls again
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    const isResized = this.canvas.width !== wide || this.canvas.height !== high;
    if (isResized) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    if (!again && this.showsAll && this.motion) this.motion.view = null; // points go on moving, in the new size
    if (again || this.showsAll) this.showAll();
    else this.draw();
    if (isResized) this.drawFrame(); // a resized canvas is empty: the next frame would be too late
  }

  /** Show the whole map, also when its size changes, until the user moves or zooms it. */
  showAll() {
    this.view = { x: 0, y: 0, scale: this.computeFittingScale() };
    this.showsAll = true;
    this.draw();
  }

  zoom(by, at = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2]) {
    const before = this.toMap(at);
    const least = this.computeFittingScale() / 3;
    this.view.scale = Math.max(least, Math.min(this.view.scale * by, this.computeFittingScale() * 2000));
    const after = this.toMap(at);
    this.view.x += before[0] - after[0];
    this.view.y += before[1] - after[1];
    this.showsAll = false;
    this.draw();
  }

  move(dx, dy) {
    this.view.x -= dx / this.view.scale;
    this.view.y += dy / this.view.scale;
    this.showsAll = false;
    this.draw();
  }

  /** Pan to map coordinates, and zoom in unless the map is zoomed in already. */
  moveTo(x, y) {
    this.showsAll = false;
    this.view.x = x;
    this.view.y = y;
    this.view.scale = Math.max(this.view.scale, this.computeFittingScale() * (this.data.compact ? 2 : 4));
    this.draw();
  }

  /** Return the map coordinates of a position on the canvas. */
  toMap([x, y]) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [this.view.x + (x - width / 2) / this.view.scale, this.view.y - (y - height / 2) / this.view.scale];
  }

  /** Return where a point is drawn, in CSS pixels from the upper left corner; it follows a moving point. */
  toScreen(row) {
    return this.toWindow(...(this.motion?.locate(row) ?? [this.coordinates[2 * row], this.coordinates[2 * row + 1]]));
  }

  /** Return where map coordinates are drawn, in CSS pixels from the upper left corner. */
  toWindow(x, y) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const view = this.computeDrawnView();
    return [width / 2 + (x - view.x) * view.scale, height / 2 - (y - view.y) * view.scale];
  }
}
