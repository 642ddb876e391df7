// Package console is the web page: the fleet as a map, what it costs, decisions with their reasons, pending pods, and
// what-if plans. It serves files only, embedded HTML, CSS and ES modules without a framework or a build step. Their script
// reads all data from the endpoints of internal/inspect/api, which are beside it at ../inspect/.
//
// The page holds no data, so that everyone may load it. The data needs a bearer token, which comes from the part of the
// address after # or is pasted, stays in the tab, and is sent with each request. Names and messages of the cluster are
// untrusted: they become text nodes only, and the Content-Security-Policy makes the browser refuse markup, scripts and
// requests that are not the page's own. Nothing on the page writes to the cluster.
//
// Not here: responses (internal/inspect), who may request them (internal/inspect/api), and the tests in a real browser, a
// module of their own in internal/console/browser. Start reading at Handler and assets/main.js.
package console
