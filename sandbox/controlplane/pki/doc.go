// Package pki makes the certificates of a control plane: an authority, and what it signs.
//
// All are of this machine: nothing here is meant for more than loopback, and no certificate but that of the authority
// outlives the start that made it. Where they are kept is up to the caller. Start reading at NewAuthority and Read.
package pki
