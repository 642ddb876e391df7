// Package interrupt reads what AWS announces about instances, for the actor of internal/cloud/respond.
//
// There are two sources: the messages of the interruption queue (Queue), and the status checks of EC2
// (Statuses). Parse and Unhealthy read them, as pure functions; the actor acts, the same way for both.
//
// The queue of a busy account is full of messages about instances of others. So several receivers read a full queue, and a
// message waits for EC2 (whose instance is it?) and for its deletion beside them: only the search for its NodeClaim, in
// the cache, and the deletion of that come before the next message.
//
// Not here: the drain, the replacement, the end of the instance. Start reading at Queue, Statuses and Parse.
package interrupt
