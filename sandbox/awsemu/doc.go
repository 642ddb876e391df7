// Package awsemu is an AWS on loopback that the unmodified SDK and command line can talk to: one port
// for EC2, IAM, STS, SQS, SSM, Pricing, EKS, EventBridge, zonal shift and fault injection. It is faithful
// where a node autoscaler reads or reacts, and nowhere else.
//
// Each service is a file that registers its operations and owns its part of the Model. Every call
// passes one pipeline: record, permissions, throttling, faults, operation, response. Time is a Clock
// that can be frozen, advanced and scaled. The wire protocols are in wire, the instance types in
// catalogue, and what nodes do with an instance in ../fakenode. Start reading at New.
package awsemu
