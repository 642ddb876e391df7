// Package keep is the ledger of a process: a ledger.Book behind a lock, which the controllers write to and questions read, and
// ConfigMaps that it is kept in if the user wants that.
//
// Without ConfigMaps a Ledger begins with the process, and no request is ever sent. With them the leader reads the Book that
// its predecessor stored before it records costs, and writes what changed: at most every ten seconds after a decision, every
// minute otherwise, and once at the end. What is the API server's is decided here: names, requests, conflicts. What a Book
// keeps and how it is merged is decided in internal/ledger.
//
// Start reading at Ledger, and at Store for the ConfigMaps.
package keep
