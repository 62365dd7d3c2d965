"""Graphics such as text, screenshots and line art: prediction from pixel contexts."""
