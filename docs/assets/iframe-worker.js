// Search in pages that are opened as files (file://): browsers start no worker from a file, so the
// worker's script runs in a hidden frame instead. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>search</title>";
      frame.addEventListener("load", () => this.start(frame, url), { once: true });
      document.body.append(frame);
    }

    start(frame, url) {
      const scope = frame.contentWindow;
      scope.postMessage = (data) => this.receive(data);
      scope.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.load(scope, next)), Promise.resolve());
      this.load(scope, url).then(() => {
        this.scope = scope;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    load(scope, url) {
      return new Promise((resolve, reject) => {
        const script = scope.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
        scope.document.body.append(script);
      });
    }

    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      if (this.scope === undefined) this.waiting.push(data);
      else this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
    }

    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
