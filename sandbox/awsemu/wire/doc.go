// Package wire speaks the protocols of AWS: EC2 query, query with members, JSON 1.0 and 1.1, REST
// JSON. It turns an HTTP request into a Request and a value or an Error into a response.
//
// It knows no operation and holds no state. Start reading at Read and Write.
package wire
