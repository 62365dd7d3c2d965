"""The local web page of `discrepant serve`."""
