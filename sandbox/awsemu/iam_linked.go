package awsemu

import (
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func (e *Emulator) registerLinkedRoles() {
	e.register(wire.IAM, "GetServiceLinkedRoleDeletionStatus", e.linkedRoleDeletion)
	e.registerMutating(wire.IAM, "DeleteServiceLinkedRole", e.deleteLinkedRole)
}

const deletionTask = "task/aws-service-role/"

// deleteLinkedRole deletes a service-linked role; the task that AWS makes of it ends at once. It fails while the service uses the
// role, which for the only one that there is means while a spot instance runs.
func (e *Emulator) deleteLinkedRole(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(role.Path, "/aws-service-role/") {
		return nil, wire.Errorf("InvalidInput", "Role %s is not a service-linked role.", role.Name)
	}
	if !e.anyAlive(func(i *Instance) bool { return i.CapacityType == "spot" }) {
		delete(e.iamState().Roles, role.Name)
	}
	return struct{ DeletionTaskId string }{deletionTask + spotServiceName + "/" + role.Name + "/" + e.nextID("")}, nil
}

func (e *Emulator) linkedRoleDeletion(c *call) (any, error) {
	task := strings.Split(strings.TrimPrefix(c.Form.String("DeletionTaskId"), deletionTask), "/")
	if len(task) != 3 {
		return nil, wire.Errorf("NoSuchEntity", "The deletion task %s cannot be found.", c.Form.String("DeletionTaskId"))
	}
	type reason struct{ Reason string }
	out := struct {
		Status string
		Reason *reason `xml:",omitempty"`
	}{Status: "SUCCEEDED"}
	if _, left := e.iamState().Roles[task[1]]; left {
		out.Status, out.Reason = "FAILED", &reason{"Role in use for instances: terminate the spot instances of the account first."}
	}
	return out, nil
}
