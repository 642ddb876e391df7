package disruption

// Asked reports once whether something asked for a turn of the queue of commands.
func (d *Disruption) Asked() bool {
	d.prepare()
	select {
	case <-d.worker.queue.wake:
		return true
	default:
		return false
	}
}
