// An extension of JupyterLab, written by hand, that shows the widgets of a saved notebook where no kernel runs.
//
// The widget manager of ipywidgets (jupyterlab_widgets 3.0) waits for a kernel before it reads the widgets that a notebook holds: without
// one it stops at "Loading widget...". Here it gets a stand-in for the kernel, which knows no widgets, until there is a real one.
// `make lab` names this folder to JupyterLab; the state gets into the notebook by the setting `saveState` in lab_settings.

(() => {
  const MANAGER = "@jupyter-widgets/jupyterlab-manager";

  /** What the manager asks a kernel for: that there is nothing to load from it. */
  function standIn(id) {
    const nothing = async () => ({ content: { status: "ok", comms: {} } });
    return { id, handleComms: false, registerCommTarget() {}, removeCommTarget() {}, requestCommInfo: nothing };
  }

  /** An object like `target`, with some properties of its own; the others are those of `target`. */
  function overlay(target, properties) {
    const get = (_, name) => {
      if (Object.hasOwn(properties, name)) return properties[name]();
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    };
    return new Proxy({}, { get });
  }

  function withoutKernel(context) {
    const nobody = { kernel: standIn(`no kernel: ${context.path}`) };
    const session = () => (context.sessionContext.session?.kernel ? context.sessionContext.session : nobody);
    const sessionContext = overlay(context.sessionContext, { session });
    return overlay(context, { sessionContext: () => sessionContext });
  }

  function* withChildren(widget) {
    yield widget;
    for (const child of widget.children()) yield* withChildren(child);
  }

  async function showSaved(panel, context) {
    await context.ready;
    await context.sessionContext.ready;
    if (context.sessionContext.session?.kernel || !context.model.getMetadata("widgets")) return;
    const module = await window._JUPYTERLAB[MANAGER].get("./index");
    const { registerWidgetManager, WidgetRenderer } = module();
    const parts = panel.content.widgets.flatMap((cell) => [...withChildren(cell)]);
    const waiting = parts.filter((part) => part instanceof WidgetRenderer);
    registerWidgetManager(withoutKernel(context), panel.content.rendermime, waiting);
  }

  const plugin = {
    id: "simdist-saved-widgets:plugin",
    autoStart: true,
    activate: (app) => {
      app.docRegistry.addWidgetExtension("Notebook", {
        createNew: (panel, context) => {
          showSaved(panel, context).catch((error) => console.warn("simdist: the saved widgets are not shown.", error));
        },
      });
    },
  };

  // what JupyterLab expects of a prebuilt extension: a container with modules by name
  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB["simdist-saved-widgets"] = {
    init: () => undefined,
    get: async () => () => ({ __esModule: true, default: plugin }),
  };
})();
