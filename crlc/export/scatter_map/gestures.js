// Mouse, touch and keyboard input of the map: moving, selecting, switching tools. No drawing here.

class Gestures extends MapView {
  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault()); // it may come back
    canvas.addEventListener("webglcontextrestored", () => this.restorePoints());
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.up(event, true));
    canvas.addEventListener("pointerleave", () => {
      this.mouse = null;
      if (!this.pointers.size) this.hover(-1);
    });
    canvas.addEventListener("dblclick", (event) => this.tool === "pan" && this.zoom(2, this.at(event)));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.hover(-1);
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), this.at(event));
    }, { passive: false });
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.stage.addEventListener("transitionend", (event) => {
      if (event.target === this.stage) this.draw(); // the colours of the theme have changed
    });
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button) return;
    this.frame.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    this.hover(-1);
    if (this.pointers.size > 1) {
      this.path = null;
      this.outline.setAttribute("d", "");
      return;
    }
    this.began = this.last = this.at(event);
    this.farthest = 0;
    const tool = event.shiftKey ? "lasso" : event.altKey ? "box" : this.tool;
    this.path = tool === "pan" || !this.canSelect ? null : { tool, corners: [this.began], more: event.ctrlKey || event.metaKey };
    this.frame.dataset.busy = this.path ? "" : "drag";
  }

  moved(event) {
    const at = this.at(event);
    if (!this.pointers.has(event.pointerId)) {
      if (event.pointerType === "touch") return;
      this.mouse = at;
      this.hover(this.rowAt(at));
      return;
    }
    const before = this.pointers.get(event.pointerId);
    if (this.pointers.size === 2) {
      const [one, two] = [...this.pointers.keys()].map((key) => this.pointers.get(key));
      const apart = Math.hypot(one[0] - two[0], one[1] - two[1]);
      this.pointers.set(event.pointerId, at);
      const [first, second] = [...this.pointers.values()];
      const now = Math.hypot(first[0] - second[0], first[1] - second[1]);
      this.move((at[0] - before[0]) / 2, (at[1] - before[1]) / 2);
      if (apart > 0) this.zoom(now / apart, [(first[0] + second[0]) / 2, (first[1] + second[1]) / 2]);
      this.farthest = Infinity;
      return;
    }
    this.pointers.set(event.pointerId, at);
    this.farthest = Math.max(this.farthest, Math.hypot(at[0] - this.began[0], at[1] - this.began[1]));
    if (!this.path) {
      this.move(at[0] - before[0], at[1] - before[1]);
      return;
    }
    if (this.path.tool === "box") {
      const [x, y] = this.began;
      this.path.corners = [[x, y], [at[0], y], at, [x, at[1]]];
    } else if (Math.hypot(at[0] - this.last[0], at[1] - this.last[1]) >= LASSO_SPACING_PIXELS) {
      this.path.corners.push(at);
      this.last = at;
    }
    this.outline.setAttribute("d", `M${this.path.corners.map((corner) => corner.join(",")).join("L")}Z`);
  }

  up(event, cancelled = false) {
    if (!this.pointers.delete(event.pointerId)) return;
    this.frame.dataset.busy = "";
    const path = this.path;
    this.path = null;
    if (cancelled || this.pointers.size) return;
    if (this.farthest < DRAG_PIXELS) {
      this.outline.setAttribute("d", "");
      const row = this.rowAt(this.at(event));
      if (row >= 0) this.send("clicked", this.ids[row]);
    } else if (path && path.corners.length > 2 && !this.motion) {
      this.send("region", { corners: path.corners.map((corner) => this.toMap(corner)), more: path.more });
    } else {
      this.outline.setAttribute("d", "");
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60;
    const actions = {
      ArrowLeft: () => this.walk(step, 0), ArrowRight: () => this.walk(-step, 0),
      ArrowUp: () => this.walk(0, step), ArrowDown: () => this.walk(0, -step),
      "+": () => this.zoom(ZOOM_STEP), "=": () => this.zoom(ZOOM_STEP), "-": () => this.zoom(1 / ZOOM_STEP),
      "0": () => this.showAll(), f: () => this.showAll(),
      l: () => this.useTool("lasso"), b: () => this.useTool("box"), p: () => this.useTool("pan"),
      Escape: () => this.escape(),
      Enter: () => this.hovered >= 0 && this.send("clicked", this.ids[this.hovered]),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || (event.key === "Enter" && event.target !== this.frame)) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  /** Move the map with the keys; the image in the middle is shown, and Enter opens it. */
  walk(dx, dy) {
    this.move(dx, dy);
    const found = this.finder?.find(this.view.x, this.view.y, 40 / this.view.scale, this.flags) ?? -1;
    this.hover(-1);
    this.hover(found);
  }

  escape() {
    this.outline.setAttribute("d", "");
    if (this.path) this.path = null;
    else if (this.tool !== "pan") this.useTool("pan");
    else if (this.chosenCount) this.send("cleared", true);
  }
}
