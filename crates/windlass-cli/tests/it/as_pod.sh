# Runs a program with the token of its pod, which is not at the usual path: that would be a path of the machine.
account=$(env | sed -n 's/^WINDLASS_VOLUME_KUBE_API_ACCESS_[^=]*=//p')
server=https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT
export KUBECONFIG=$HOME/kubeconfig
cat > "$KUBECONFIG" <<END
apiVersion: v1
kind: Config
current-context: pod
clusters: [{name: pod, cluster: {server: "$server", certificate-authority: "$account/ca.crt"}}]
users: [{name: pod, user: {tokenFile: "$account/token"}}]
contexts: [{name: pod, context: {cluster: pod, user: pod}}]
END
exec "$0" "$@"
