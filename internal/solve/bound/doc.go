// Package bound says what any plan for some pods costs at least: the linear program without zones, spread and affinity.
// It may be lower than necessary and is never higher than the cheapest plan.
//
// Not here: plans; nothing that decides reads the bound. Start reading at Of.
package bound
