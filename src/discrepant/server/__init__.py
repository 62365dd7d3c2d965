"""Local web page of `discrepant serve`."""
