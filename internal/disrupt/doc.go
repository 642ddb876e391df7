// Package disrupt decides which nodes go of our own will: it keeps the marks that say a claim may go,
// and picks nodes within the budgets of their pools.
//
// Today that is emptiness. Not here: doing it (internal/controller), nodes that must go whatever
// anybody says (internal/lifecycle), how pods leave a node (internal/drain).
//
// Enter at Marks and Empty.
package disrupt
