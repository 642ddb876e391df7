// Package disrupt decides which nodes go of our own will: it keeps the marks that say a claim may go,
// and picks nodes within the budgets of their pools.
//
// A decision is a list of commands, each complete, with what is to be said about nodes that stay. Not
// here: carrying it out (internal/controller), nodes that must go whatever anybody says
// (internal/lifecycle), how pods leave a node (internal/drain).
//
// Enter at Next and Marks.
package disrupt
