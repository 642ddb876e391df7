// Package app wires the controller: it turns a Config into a manager with its reconcilers and runs
// it. It holds no rules and no reconcilers, and only the command imports it. Start reading at Run.
//
// Levels of the log, for every package, with log.FromContext(ctx):
//
//	log.V(1).Info("message", …)     DEBUG; anything above V(1) is never written
//	log.Info("message", …)          INFO
//	log.Error(nil, "message", …)    WARN: worth checking, but nothing failed
//	log.Error(err, "message", …)    ERROR; an error that was joined also shows its errorCauses
//
// Objects are values of klog.KObj or klog.KRef under the name of their kind; durations are durations.
package app
