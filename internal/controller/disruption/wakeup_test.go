package disruption

// TakeWakeUp reports whether the queue of commands was woken, and resets that.
func (d *Disruption) TakeWakeUp() bool {
	d.prepare()
	select {
	case <-d.worker.queue.wake:
		return true
	default:
		return false
	}
}
